"""Which system call of a trace wrote which bytes of a HIP log: a key that needs no clock."""
