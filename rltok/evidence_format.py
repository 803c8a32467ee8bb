"""Name and schema of evidence records, for those that write them and those that read them."""

SCHEMA = 1
WHAT = "rltok evidence"
