"""What an agent's runs looked like from inside: the requests its models were given, the spans, the stages."""
