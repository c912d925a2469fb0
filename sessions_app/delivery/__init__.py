"""Delivery of rows that wait for a process: conversation runs and eval runs alike."""
