"""Where rules come from: settings files, their keys, a project's grants, and what is wrong with them."""
