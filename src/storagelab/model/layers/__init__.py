"""The layers of volumes, one file for each kind; `model.config` finds them."""
