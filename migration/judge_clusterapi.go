package migration

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

func (c *toNative) judgeDeployment(d *clusterv1.MachineDeployment) {}
