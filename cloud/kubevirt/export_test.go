package kubevirt

// SetPageSize lets a test list with small pages: five hundred VMs take an API server long to make.
func (d *Driver) SetPageSize(n int) { d.limit = n }
