// Package guests plays the guests of a cloud's VMs that boot with kubeadm, and the
// cloud's controller manager. It reads the boot data that the driver handed to the cloud, refuses
// what cloud-init and kubeadm would refuse, and plays what kubeadm leaves behind:
// an API server, etcd members, static pods, kubeadm's ConfigMaps, and Nodes.
//
// API server and etcd are those of Cluster API's in-memory provider. They serve
// KubeadmControlPlane over TLS with the certificates that the boot data carries,
// etcd through the port-forward of its pods. What they do not show: the API server
// asks no client who it is, so neither client certificates nor RBAC are tested; it
// validates and defaults nothing; etcd has members and a leader but no data; no
// container runs, and no network plugin is needed. Where a load balancer leads to a cluster,
// its endpoint only answers while one of the members runs an API server.
package guests
