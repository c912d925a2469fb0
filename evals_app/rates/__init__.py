"""Rate limits of models, which all processes of a store share."""
