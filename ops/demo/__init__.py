"""`cdcbus demo`: the whole way on real servers, from a changing database to equal copies."""
