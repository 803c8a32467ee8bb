"""Name and schema of evidence records, for those that write them and those that read them."""

SCHEMA = 1
WHAT = "rltok evidence"
START = "rltok start of a run"  # of one that was stopped and not gone on with
