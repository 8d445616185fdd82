"""Compares the model with published figures.

`articles` and published/*.toml hold the figures as data, `quantities` reads them off runs, `making` makes the runs,
`judging` compares, `parameters` lists the model's parameters, and `words` and `table` show it all.
"""
