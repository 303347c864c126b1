package openstack

// Birthmark is what the description of a port says.
func Birthmark(ownership []string, ownerID string) string {
	return (&config{ownership: ownership}).birthmark(ownerID)
}
