"""Files that anybody may have made are read as plain data of bounded size; ours are written whole or not at all."""
