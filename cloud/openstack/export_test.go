package openstack

import "github.com/capmcm/cluster-api-provider-mcm/cloud"

// PortMark is the description of a port.
func PortMark(ownership []string, ownerID string) string {
	return (&config{ownership: ownership}).portMark(cloud.CreateRequest{Ref: cloud.Ref{OwnerID: ownerID}}).String()
}

// AddressMark is the description of a floating IP.
func AddressMark(ownership []string, ownerID, machine string) string {
	return (&config{ownership: ownership}).addressMark(cloud.Ref{OwnerID: ownerID, Name: machine}).String()
}
