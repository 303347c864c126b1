package azure_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

func harness(edits spec, where at) cloudtest.Harness {
	return cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture { return fixture(t, edits, where, newClock()) },
		Lacks: map[string]string{
			"C23":        "names of VMs are unique in a resource group: a machine cannot have two",
			"C24/Many":   "MCM's classes for Azure have one network interface with one address",
			"C42":        "no class keeps anything: disks and interfaces are made with deleteOption Delete",
			"C44/Failed": "nothing is made before a VM of this class; the way ImageDisks tries it",
			"C45/Disk":   "nothing is made before a VM of this class; the way ImageDisks tries it",
			"C45/Import": "an image is there or the request is refused", "C45/Network": "a VM is made with its interface",
			"C46/Accelerators": "the size of a VM says how many it has",
			"C38":              "MCM's classes for Azure name no load balancers",
		},
		SparseFile: "testdata/sparse.golden",
		Samples:    samples(), Rules: rules(), Secrets: secrets(), Errors: errorRows(), ProviderIDs: providerIDs(),
		Volumes: volumes(), Golden: golden(),
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "azure:///westeurope/" + vm.ID, "azure:///subscriptions/" + azuretest.Subscription +
				"/resourceGroups/machines/providers/Microsoft.Compute/virtualMachines/" + vm.ID
		},
		Capacity: cloud.Capacity{
			Resources:    map[string]string{"cpu": "2", "memory": "8Gi", "gpu": "0", "pods": "110", "ephemeral-storage": "50Gi"},
			Architecture: "amd64",
		},
	}
}

// wrapped is the harness with the accounts within their budget and time and without secrets,
// as the manager has them.
func wrapped(edits spec) cloudtest.Harness {
	h := harness(edits, inProcess)
	h.New = func(t testing.TB) *cloudtest.Fixture {
		now := newClock()
		f := fixture(t, edits, inProcess, now)
		f.Wrap = []cloud.Middleware{
			wrap.Redact(nil), wrap.Timeout(wrap.Timeouts{}), wrap.Budget(wrap.Rate{}, nil, wrap.Clock{Now: now.Now}),
		}
		return f
	}
	return h
}

// imageDisks are properties of VMs that attach a disk which is made before.
func imageDisks() spec {
	return spec{
		"diagnosticsProfile": spec{"enabled": true},
		"storageProfile": storage(spec{"dataDisks": []any{spec{
			"lun": 0, "storageAccountType": "Premium_LRS", "diskSizeGB": 20,
			"imageRef": spec{"id": "/images/data-1"},
		}}}),
	}
}

// TestConformance takes the driver through the kit: as the manager wraps it, over a real
// connection, and with VMs that need more than one request.
func TestConformance(t *testing.T) {
	t.Parallel()
	plain := spec{"diagnosticsProfile": spec{"enabled": true}}
	disks := harness(imageDisks(), inProcess)
	delete(disks.Lacks, "C44/Failed")
	delete(disks.Lacks, "C45/Disk")
	disks.Lacks["C16"] = "a disk has to be shown before a VM can attach it"
	counted := harness(plain, inProcess)
	counted.CostPage = "../../docs/clouds/azure.md"
	cloudtest.RunAll(t, map[string]cloudtest.Harness{
		"Plain": counted, "ImageDisks": disks,
		"OverHTTP": harness(plain, overHTTP), "Wrapped": wrapped(plain),
	})
}

// inGroup begins the ids of resources that nothing looks up.
const inGroup = "/subscriptions/s/resourceGroups/g/providers/"

// full is a class with every field set.
func full() spec {
	return spec{
		"cloudConfiguration": spec{"name": "AzurePublic"},
		"subnetInfo":         spec{"vnetName": "net", "subnetName": "nodes", "vnetResourceGroup": "networks"},
		"properties": properties(spec{
			"storageProfile": spec{
				"imageReference":     spec{"urn": "publisher:offer:sku:1.2.3", "skipMarketplaceAgreement": false},
				"diskControllerType": "NVMe",
				"osDisk": spec{
					"name": "ignored", "caching": "ReadOnly", "diskSizeGB": 64, "createOption": "FromImage",
					"managedDisk": spec{
						"id": "ignored", "storageAccountType": "Premium_LRS",
						"securityProfile": spec{"securityEncryptionType": "VMGuestStateOnly"},
					},
				},
				"dataDisks": []any{
					spec{
						"name": "data", "lun": 0, "caching": "ReadWrite", "storageAccountType": "StandardSSD_LRS", "diskSizeGB": 100,
					},
					spec{"lun": 3, "storageAccountType": "Premium_LRS", "diskSizeGB": 20},
				},
			},
			"osProfile": spec{
				"computerName": "ignored", "adminUsername": "core", "customData": "ignored",
				"linuxConfiguration": spec{
					"disablePasswordAuthentication": true,
					"ssh": spec{"publicKeys": spec{
						"path": "/var/lib/core/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA test",
					}},
				},
			},
			"networkProfile": spec{
				"acceleratedNetworking": true,
				"securityGroupID":       inGroup + "Microsoft.Network/networkSecurityGroups/nodes",
				"loadBalancerPoolIDs":   []string{inGroup + "Microsoft.Network/loadBalancers/api/backendAddressPools/api"},
			},
			"identityID":         inGroup + "Microsoft.ManagedIdentity/userAssignedIdentities/i",
			"diagnosticsProfile": spec{"enabled": true, "storageURI": "https://logs.blob.core.windows.net/"},
			"securityProfile": spec{
				"securityType": "ConfidentialVM", "uefiSettings": spec{"vtpmEnabled": true, "secureBootEnabled": false},
			},
			"capacityReservation": spec{
				"capacityReservationGroupID": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/" +
					"CapacityReservationGroups/r",
			},
			"priority": "Spot", "evictionPolicy": "Deallocate", "billingProfile": spec{"maxPrice": 0.25},
		}),
	}
}

// generatedKey is a key that the driver makes, another one in each process.
var generatedKey = regexp.MustCompile(`ssh-rsa AAAAB3[0-9A-Za-z+/]+`)

// golden is what the cloud is asked for, without repetitions.
func golden() *cloudtest.Golden {
	seen := map[string]bool{}
	return &cloudtest.Golden{
		File: "testdata/create.golden", Smallest: class("small", nil),
		Class: func(*cloudtest.Fixture) cloud.ClassInput {
			clear(seen)
			return class("full", full())
		},
		Normalize: func(c cloudtest.Call) string {
			if c.Login || !c.Mutates {
				return ""
			}
			var body bytes.Buffer
			_ = json.Indent(&body, c.Body, "", "  ") // an empty body stays empty
			text := strings.TrimSpace(c.Op + "\n" + body.String())
			text = strings.ReplaceAll(text, "/home/"+"core/", "~core/") // no file of ours names a home
			text = generatedKey.ReplaceAllString(text, "ssh-rsa …")
			if seen[text] {
				return ""
			}
			seen[text] = true
			return text
		},
	}
}

func secrets() []cloudtest.Secret {
	renamed := func(names map[string]string) func(cloud.Credentials) cloud.Credentials {
		return func(v cloud.Credentials) cloud.Credentials {
			out := cloud.Credentials{}
			for key, value := range v {
				if name, has := names[key]; has {
					key = name
				}
				if key != "" {
					out[key] = value
				}
			}
			return out
		}
	}
	missing := func(name, reason string) cloudtest.Secret {
		return cloudtest.Secret{
			Name: "no " + name, Reason: reason, Missing: "secret." + name, Credentials: renamed(map[string]string{name: ""}),
		}
	}
	old := map[string]string{
		"subscriptionID": "azureSubscriptionId", "tenantID": "azureTenantId", "clientID": "azureClientId",
		"clientSecret": "azureClientSecret",
	}
	return []cloudtest.Secret{
		{Name: "old names", Reason: "Secrets from before MCM renamed the entries", Credentials: renamed(old)},
		{
			Name: "empty new name", Reason: "MCM's validation accepts it and its login does not",
			Credentials: func(v cloud.Credentials) cloud.Credentials {
				out := renamed(old)(v)
				out["clientID"] = nil
				return out
			},
		},
		{Name: "line end", Reason: "editors add one", Credentials: func(v cloud.Credentials) cloud.Credentials {
			out := renamed(nil)(v)
			out["clientSecret"] = append(bytes.Clone(v["clientSecret"]), '\n')
			return out
		}},
		missing("subscriptionID", "every call names it"), missing("tenantID", "the login names it"),
		missing("clientID", "the login names it"), missing("clientSecret", "one of two has to be there"),
		{
			Name: "two secrets", Reason: "MCM takes either", Missing: "secret.workloadIdentityTokenFile",
			Credentials: func(v cloud.Credentials) cloud.Credentials {
				out := renamed(nil)(v)
				out["workloadIdentityTokenFile"] = []byte("/var/run/token")
				return out
			},
		},
	}
}

func errorRows() []cloudtest.ErrorRow {
	reply := func(status int, code, message string) cloudtest.Reply {
		body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}})
		return cloudtest.Reply{Status: status, Body: string(body)}
	}
	put := func(c cloudtest.Call) bool { return c.Op == "PUT virtualMachines" }
	here := &cloud.Offering{Region: "westeurope", Zone: "1", InstanceType: smallSize, CapacityType: "on-demand"}
	region := &cloud.Offering{Region: "westeurope", InstanceType: smallSize, CapacityType: "on-demand"}
	slow := reply(http.StatusTooManyRequests, "TooManyRequests", "slow down")
	slow.Header = map[string]string{"Retry-After": "7"}
	create := func(name string, r cloudtest.Reply, code cloud.Code, of *cloud.Offering) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{Name: name, Op: "create", Match: put, Reply: r, Code: code, Of: of}
	}
	return []cloudtest.ErrorRow{
		create("zone", reply(409, "ZonalAllocationFailed", "no"), cloud.Exhausted, here),
		create("allocation", reply(409, "AllocationFailed", "no"), cloud.Exhausted, here),
		create("size", reply(409, "SkuNotAvailable", "no"), cloud.Exhausted, here),
		create("constraints", reply(409, "OverconstrainedAllocationRequest", "no"), cloud.Exhausted, here),
		create("quota", reply(409, "OperationNotAllowed", "exceeding approved Total Regional Cores quota"), cloud.Exhausted,
			region),
		create("subnet", reply(400, "SubnetIsFull", "no"), cloud.Exhausted, nil),
		create("feature", reply(400, "BadRequest", "The size is not supported here"), cloud.Exhausted, here),
		create("image", reply(404, "ImageNotFound", "no"), cloud.Invalid, nil),
		create("parameter", reply(400, "InvalidParameter", "no"), cloud.Invalid, nil),
		create("terms", reply(400, "MarketplacePurchaseEligibilityFailed", "no"), cloud.Invalid, nil),
		create("group", reply(404, "ResourceGroupNotFound", "no"), cloud.Invalid, nil),
		create("other body", reply(409, "PropertyChangeNotAllowed", "no"), cloud.TokenUsed, nil),
		create("policy", reply(403, "RequestDisallowedByPolicy", "no"), cloud.Denied, nil),
		create("busy", reply(409, "AnotherOperationInProgress", "no"), cloud.Unavailable, nil),
		{
			Name: "interface", Op: "create", Match: put, Reply: reply(400, "NicReservedForAnotherVm", "no"),
			Code: cloud.Unavailable, After: 3 * time.Minute,
		},
		{Name: "throttled", Op: "create", Match: put, Reply: slow, Code: cloud.Throttled, After: 7 * time.Second},
		{Name: "failing", Op: "list", Reply: cloudtest.Reply{Status: 503}, Code: cloud.Unavailable},
		{
			Name: "forbidden", Op: "get", Reply: reply(403, "AuthorizationFailed", "no"), Code: cloud.Denied,
			Reason: "AuthorizationFailed",
		},
		{Name: "capacity", Op: "capacity", Reply: reply(403, "AuthorizationFailed", "no"), Code: cloud.Denied},
		{Name: "locked", Op: "delete", Reply: reply(409, "ScopeLocked", "no"), Code: cloud.Denied},
	}
}

func providerIDs() []cloudtest.ProviderID {
	const group = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
	return []cloudtest.ProviderID{
		{Form: "MCM", Value: "azure:///westeurope/vm-1", ID: "vm-1"},
		{Form: "CCM", Value: group + "/virtualMachines/vm-1", ID: "vm-1"},
		{Form: "CCM, flexible scale set", Value: group + "/virtualMachines/set_0a1b", ID: "set_0a1b"},
		{
			Form: "CCM, uniform scale set", Value: group + "/virtualMachineScaleSets/s/virtualMachines/0",
			Reason: "an instance of a scale set is no machine's",
		},
		{Form: "AWS", Value: "aws:///eu-west-1/i-1", Reason: "another cloud's"},
		{Form: "empty", Value: "azure:///westeurope/", Reason: "it names no VM"},
	}
}

func volumes() []cloudtest.Volume {
	const id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/pvc-1"
	return []cloudtest.Volume{
		{Name: "CSI", Volume: cloud.Volume{Driver: "disk.csi.azure.com", Handle: id}, ID: id},
		{Name: "in tree", Volume: cloud.Volume{Driver: "kubernetes.io/azure-disk", Handle: "pvc-1"}, ID: "pvc-1"},
		{Name: "files", Volume: cloud.Volume{Driver: "file.csi.azure.com", Handle: "share"}},
	}
}

// TestFederatedToken: a token of another identity provider opens the account, is read again
// for each login, and its path cannot name what the manager itself is known by.
func TestFederatedToken(t *testing.T) {
	t.Parallel()
	now := newClock()
	f := fixture(t, nil, inProcess, now)
	tokens := t.TempDir()
	file := filepath.Join(tokens, "token")
	creds := credentials()
	delete(creds, "clientSecret")
	creds["workloadIdentityTokenFile"] = []byte(file)
	if p := f.Driver().CheckSecret(cloud.Class{}, creds); len(p) != 1 || p[0].Field != "secret.workloadIdentityTokenFile" {
		t.Errorf("a file of no folder that is open: got %v", p)
	}
	d := azure.NewDriver(azure.Options{
		Transport: f.Backend.Proxy, Endpoint: "http://azure.invalid", Now: now.Now, TokenFolders: []string{tokens},
	})
	c, _ := d.Parse(f.Class)
	if _, err := d.Open(t.Context(), c, creds); cloud.CodeOf(err) != cloud.Denied {
		t.Errorf("open without the file: got %v, want Denied", err)
	}
	if err := os.WriteFile(file, []byte(azuretest.Federated+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Hour) // past the memory of the refusal
	if _, err := d.Open(t.Context(), c, creds); err != nil {
		t.Errorf("open with the file: %v", err)
	}
}
