"""Every promise about nothing being lost, under every fault that can be made: kills, errors, disks, agents, bad bytes."""
