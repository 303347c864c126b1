package capi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

const (
	azureBoot = 300 * time.Millisecond
	// azurePool is the backend address pool of the load balancer.
	azurePool = "/subscriptions/" + azuretest.Subscription +
		"/resourceGroups/Machines/providers/Microsoft.Network/loadBalancers/api/backendAddressPools/api"
)

// azureGroup is a resource group in a region with three zones.
type azureGroup struct {
	*azuretest.Cloud

	env []string // with which our manager finds it
}

func newAzure(t *testing.T) *azureGroup {
	t.Helper()
	s := azuretest.DefaultSettings()
	s.Boot, s.Shutdown = azureBoot, azureBoot
	s.Violation = func(text string) { t.Errorf("the published API does not allow this: %s", text) }
	g := &azureGroup{Cloud: azuretest.New(s, time.Now)}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	g.env = []string{azure.EndpointVariable + "=" + server.URL}
	return g
}

// Variables are those of flavor azure.
func (g *azureGroup) Variables() map[string]string {
	return map[string]string{
		"CONTROL_PLANE_ZONE_1": "1", "CONTROL_PLANE_ZONE_2": "2", "CONTROL_PLANE_ZONE_3": "3",
		"AZURE_LOCATION": "westeurope", "AZURE_RESOURCE_GROUP": "Machines", "AZURE_VNET_NAME": "net",
		"AZURE_SUBNET_NAME": "nodes", "AZURE_ZONE": "1", "AZURE_IMAGE_ID": "/images/linux-1",
		"AZURE_SSH_PUBLIC_KEY": "ssh-rsa AAAA test", "AZURE_API_SERVER_POOL_ID": azurePool,
		"AZURE_SUBSCRIPTION_ID": azuretest.Subscription, "AZURE_TENANT_ID": azuretest.Tenant,
		"AZURE_CLIENT_ID": azuretest.Client, "AZURE_CLIENT_SECRET": azuretest.Secret,
	}
}

// VMs returns the VMs that are not gone.
func (g *azureGroup) VMs(context.Context) ([]guests.VM, error) {
	var vms []guests.VM
	for _, r := range g.Ledger() {
		if r.Type != azuretest.TypeVM {
			continue
		}
		vms = append(vms, guests.VM{
			ID: r.Name, Name: r.Name, Version: oldKubernetes, NodeName: r.Name,
			ProviderID: "azure:///subscriptions/" + azuretest.Subscription +
				"/resourceGroups/machines/providers/Microsoft.Compute/virtualMachines/" + r.Name,
			Running: r.Deleted.IsZero() && time.Since(r.Made) >= azureBoot,
			Metadata: guests.Metadata{
				InstanceID: r.Name, Hostname: r.Name, Region: "westeurope", Zone: strings.Join(r.Zones, ","),
				Source: map[string]string{"instance_id": r.Name, "local_hostname": r.Name},
			},
		})
	}
	return vms, nil
}

// UserData returns the custom data of a VM.
func (g *azureGroup) UserData(_ context.Context, id string) ([]byte, error) {
	guest, _ := g.Look(id).Properties["osProfile"].(map[string]any)
	text, there := guest["customData"].(string)
	if !there {
		return nil, fmt.Errorf("VM %s has no custom data", id)
	}
	return base64.StdEncoding.DecodeString(text)
}

// Members returns the VMs that run and whose interface is in the pool.
func (g *azureGroup) Members(ctx context.Context) ([]string, error) {
	all, err := g.VMs(ctx)
	var ids []string
	for _, vm := range all {
		pools, err := poolsOf(g.Look(vm.ID))
		if err != nil {
			return nil, err
		}
		if vm.Running && slices.Equal(pools, []string{azurePool}) {
			ids = append(ids, vm.ID)
		}
	}
	return ids, err
}

// poolsOf returns the pools that the interface of a VM was asked for in.
func poolsOf(vm azuretest.Resource) ([]string, error) {
	var properties struct {
		Network struct {
			Interfaces []struct {
				Properties struct {
					IPs []struct {
						Properties struct {
							Pools []struct{ ID string } `json:"loadBalancerBackendAddressPools"`
						} `json:"properties"`
					} `json:"ipConfigurations"`
				} `json:"properties"`
			} `json:"networkInterfaceConfigurations"`
		} `json:"networkProfile"`
	}
	text, err := json.Marshal(vm.Properties)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &properties); err != nil {
		return nil, fmt.Errorf("properties of VM %s: %w", vm.Name, err)
	}
	var ids []string
	for _, nic := range properties.Network.Interfaces {
		for _, ip := range nic.Properties.IPs {
			for _, pool := range ip.Properties.Pools {
				ids = append(ids, pool.ID)
			}
		}
	}
	return ids, nil
}

// Settled: the control plane's VMs are in the pool, and no others.
func (g *azureGroup) Settled(ctx context.Context, controlPlane []string) error {
	return membersAre(ctx, g, controlPlane)
}

// Left names VMs, interfaces and disks.
func (g *azureGroup) Left(context.Context) ([]string, error) {
	var left []string
	for _, r := range g.Ledger() {
		left = append(left, r.Type+" "+r.Name)
	}
	return left, nil
}
