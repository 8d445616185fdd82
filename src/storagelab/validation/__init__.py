"""The model held against what was published.

`articles` and published/*.toml are the figures as data, `quantities` reads them off runs, `making` makes the runs that it
takes, `judging` compares, `parameters` lists what the model is made of, `words` and `table` show it all.
"""
