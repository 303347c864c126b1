package azure

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCapacity = "get capacity"

// size is what the cloud says about a size of VMs.
type size struct {
	Name         string `json:"name"`
	Type         string `json:"resourceType"`
	Capabilities []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"capabilities"`
	Restrictions []struct {
		Type string `json:"type"`
	} `json:"restrictions"`
}

// Capacity returns what a node of c will offer. The sizes of a location are read once an
// hour.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	s, err := driverkit.SpecOf[*spec](opCapacity, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	sizes, err := a.sizes.Get(ctx, opCapacity, s.Location, func(ctx context.Context) (map[string]size, error) {
		return a.sizesIn(ctx, s.Location)
	})
	if err != nil {
		return cloud.Capacity{}, driverkit.Restrict(err)
	}
	found, there := sizes[strings.ToLower(s.Properties.Hardware.Size)]
	if !there {
		return cloud.Capacity{}, driverkit.WithField(
			cloud.Errorf(cloud.Invalid, opCapacity, "InvalidSize", "there is no size %q in %s for this subscription",
				s.Properties.Hardware.Size, s.Location),
			"properties.hardwareProfile.vmSize", "name a size that the region offers")
	}
	return found.capacity(s)
}

// sizesIn returns the sizes that the subscription may use in a location, by name in small
// letters.
func (a *account) sizesIn(ctx context.Context, location string) (map[string]size, error) {
	all := map[string]size{}
	for z, err := range list[size](ctx, a.client, opCapacity, request{
		path:    "/subscriptions/" + url.PathEscape(a.client.subscription) + "/providers/Microsoft.Compute/skus",
		version: skuVersion, query: url.Values{"$filter": {"location eq '" + location + "'"}},
	}) {
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(z.Type, "virtualMachines") && !z.forbidden() {
			all[strings.ToLower(z.Name)] = z
		}
	}
	return all, nil
}

// forbidden reports whether the subscription may use the size nowhere in the location.
func (z size) forbidden() bool {
	for _, r := range z.Restrictions {
		if strings.EqualFold(r.Type, "Location") {
			return true
		}
	}
	return false
}

func (z size) value(name string) string {
	for _, c := range z.Capabilities {
		if strings.EqualFold(c.Name, name) {
			return c.Value
		}
	}
	return ""
}

func (z size) capacity(s *spec) (cloud.Capacity, error) {
	const mib, usualPods = 1024, "110"
	memory, err := strconv.ParseFloat(z.value("MemoryGB"), 64)
	if err != nil || z.value("vCPUs") == "" {
		return cloud.Capacity{}, cloud.Errorf(cloud.Unknown, opCapacity, "BrokenAnswer",
			"the cloud does not say what the size %s has", z.Name)
	}
	gpus := z.value("GPUs")
	if gpus == "" {
		gpus = "0"
	}
	arch := driverkit.Architecture(z.value("CpuArchitectureType"))
	if arch == "" {
		arch = "amd64" // Azure writes x64
	}
	return cloud.Capacity{Architecture: arch, Resources: map[string]string{
		"cpu": z.value("vCPUs"), "memory": driverkit.MiB(int64(math.Round(memory * mib))), "gpu": gpus, "pods": usualPods,
		"ephemeral-storage": fmt.Sprintf("%dGi", s.Properties.Storage.OSDisk.SizeGB),
	}}, nil
}
