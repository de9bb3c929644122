"""Pure domain of the fleet: catalog, quota arithmetic, the resolved model, rules. No I/O, no AWS, no jsii."""
