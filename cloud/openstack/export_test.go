package openstack

import "github.com/capmcm/cluster-api-provider-mcm/cloud"

// Birthmark is what the description of a port says.
func Birthmark(ownership []string, ownerID string) string {
	return (&config{ownership: ownership}).birthmark(cloud.CreateRequest{Ref: cloud.Ref{OwnerID: ownerID}})
}
