"""Reader of the AMD HIP runtime log (`AMD_LOG_LEVEL`) of ROCm 3.5 to 7.2."""
