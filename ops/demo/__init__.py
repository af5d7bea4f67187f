"""`cdcbus demo`: the whole pipeline on real servers, from a changing database to equal copies."""
