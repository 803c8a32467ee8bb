"""Records of many runs, and what they show of the paper's claims."""
