package clouds

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// openStackCloud are real services, with one project of them.
type openStackCloud struct{ *openstack.Project }

func startOpenStack(t *testing.T) backend {
	t.Helper()
	return &openStackCloud{openstack.ForTest(t).NewProject(t)}
}

const generationKey = "generation" // of the server's metadata

func (o *openStackCloud) Class(generation int) class {
	c := class{InstanceType: openstack.FlavorSmall, Region: openstack.Region, Zone: openstack.Zone}
	c.Spec = map[string]any{
		"apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "kind": "MachineProviderConfig",
		"spec": map[string]any{
			"imageName": openstack.Image, "region": c.Region, "availabilityZone": c.Zone, "flavorName": c.InstanceType,
			"keyName":   openstack.KeyName,
			"networkID": o.Network, "podNetworkCIDRs": []string{"100.64.0.0/11"},
			"tags": map[string]string{
				"kubernetes.io-cluster-clouds": "1", "kubernetes.io-role-node": "1",
				generationKey: strconv.Itoa(generation),
			},
		},
	}
	return c
}

func (o *openStackCloud) Credentials() map[string][]byte {
	return map[string][]byte{
		"authURL": []byte(o.AuthURL()), "domainName": []byte("Default"), "tenantName": []byte(o.Name),
		"username": []byte(o.User), "password": []byte(o.Password),
	}
}

func (o *openStackCloud) VMs(ctx context.Context) ([]vm, error) {
	servers, err := o.Live(ctx)
	var vms []vm
	for _, s := range servers {
		if s.Status != "ACTIVE" || s.Task != "" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(s.UserData)
		if err != nil {
			return nil, fmt.Errorf("user data of %s: %w", s.Name, err)
		}
		generation, err := strconv.Atoi(s.Metadata[generationKey])
		if err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", s.Name, err)
		}
		vms = append(vms, vm{
			ID: s.ID, Generation: generation, UserData: data, NodeName: s.Name,
			ProviderID: "openstack:///" + s.ID, MCM: "openstack:///" + openstack.Region + "/" + s.ID,
		})
	}
	return vms, err
}

func (o *openStackCloud) Kill(ctx context.Context, id string) error { return o.Delete(ctx, id) }

func (o *openStackCloud) Ledger(ctx context.Context) ([]string, error) {
	servers, err := o.Live(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, s := range servers {
		all = append(all, "server "+s.Name)
	}
	ports, err := o.LivePorts(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		all = append(all, "port "+p.ID+" "+p.Name)
	}
	volumes, err := o.LiveVolumes(ctx)
	for _, v := range volumes {
		all = append(all, fmt.Sprintf("volume %+v", v))
	}
	return all, err
}
