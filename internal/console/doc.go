// Package console finds in the serial console of a VM why its node did not join. A text goes in,
// and a cause, the line that shows it and a remedy come out. It makes no requests, and decides
// nothing for a controller.
//
// The patterns are the messages of dhclient, cloud-init, systemd, containerd, kubeadm and kubelet,
// as docs/operations.md names them.
package console
