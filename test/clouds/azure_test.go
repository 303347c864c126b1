package clouds

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
)

const azureBoot = 300 * time.Millisecond

func azureSettings() azuretest.Settings {
	s := azuretest.DefaultSettings()
	s.Boot, s.Shutdown = azureBoot, azureBoot
	return s
}

// azureCloud is the Resource Manager.
type azureCloud struct{}

func startAzure(t *testing.T) backend {
	t.Helper()
	arm.Change(func(s *azuretest.Settings) {
		s.Violation = func(text string) { t.Errorf("the published API does not allow this: %s", text) }
	})
	t.Cleanup(func() { arm.Change(func(s *azuretest.Settings) { s.Violation = nil }) })
	return azureCloud{}
}

func azureSizes() []string { return []string{"Standard_D2s_v5", "Standard_D2ps_v5"} }

func (azureCloud) Class(generation int) class {
	c := class{InstanceType: azureSizes()[generation], Region: "westeurope", Zone: "1"}
	c.Spec = map[string]any{
		"location": c.Region, "resourceGroup": "Machines",
		"subnetInfo": map[string]any{"vnetName": "net", "subnetName": "nodes"},
		"properties": map[string]any{
			"hardwareProfile": map[string]any{"vmSize": c.InstanceType},
			"osProfile":       map[string]any{"adminUsername": "core"},
			"storageProfile": map[string]any{
				"imageReference": map[string]any{"id": "/images/linux-1"},
				"osDisk":         map[string]any{"createOption": "FromImage", "diskSizeGB": 20},
			},
			"zone": 1,
		},
		"tags": map[string]string{"kubernetes.io-cluster-clouds": "1", "kubernetes.io-role-node": "1"},
	}
	return c
}

func (azureCloud) Credentials() map[string][]byte {
	return map[string][]byte{
		"subscriptionID": []byte(azuretest.Subscription), "tenantID": []byte(azuretest.Tenant),
		"clientID": []byte(azuretest.Client), "clientSecret": []byte(azuretest.Secret),
	}
}

func (azureCloud) VMs(context.Context) ([]vm, error) {
	addresses := map[string]string{} // by VM
	var vms []vm
	for _, r := range arm.Ledger() {
		if r.Type == azuretest.TypeNIC {
			addresses[r.VM] = r.Address
		}
	}
	for _, r := range arm.Ledger() {
		if r.Type != azuretest.TypeVM || !r.Deleted.IsZero() || time.Since(r.Made) < azureBoot {
			continue
		}
		generation := 0
		if hardware, _ := r.Properties["hardwareProfile"].(map[string]any); hardware["vmSize"] == azureSizes()[1] {
			generation = 1
		}
		guest, _ := r.Properties["osProfile"].(map[string]any)
		data, _ := base64.StdEncoding.DecodeString(fmt.Sprint(guest["customData"])) // the double has checked it
		vms = append(vms, vm{
			ID: r.Name, Generation: generation, UserData: data, Address: addresses[r.Name], NodeName: r.Name,
			ProviderID: "azure:///subscriptions/" + azuretest.Subscription +
				"/resourceGroups/machines/providers/Microsoft.Compute/virtualMachines/" + r.Name,
			MCM: "azure:///westeurope/" + r.Name,
		})
	}
	return vms, nil
}

func (azureCloud) Kill(_ context.Context, id string) error {
	arm.Edit(id, func(r *azuretest.Resource) { r.Deleted = time.Now() })
	return nil
}

func (azureCloud) Ledger(context.Context) ([]string, error) {
	var all []string
	for _, r := range arm.Ledger() {
		all = append(all, r.Type+" "+r.Name)
	}
	return all, nil
}
