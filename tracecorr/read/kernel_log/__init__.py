"""Reads kernel logs: dmesg, /dev/kmsg and the journal; what their lines say of queues, processes and GPUs."""
