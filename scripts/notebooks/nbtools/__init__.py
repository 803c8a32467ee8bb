"""Tools that run, pair and check the notebooks; the commands beside this folder and the tests use them."""
