package kubevirt_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// sized is a change of a class that lists its resources itself, as MCM's do.
func sized(requests map[string]any) map[string]any {
	return map[string]any{"instancetype": nil, "resources": map[string]any{"requests": requests}}
}

func samples() []cloudtest.Sample {
	return []cloudtest.Sample{
		{
			Name: "Gardener", Class: class(map[string]any{
				"instancetype": nil, "apiVersion": "kubevirt.machine.gardener.cloud/v1alpha1",
				"resources": map[string]any{"requests": map[string]any{"cpu": 2, "memory": "4Gi"}},
				"sshKeys":   []string{"ssh-ed25519 AAAA user"}, "dnsPolicy": "None",
				"dnsConfig": map[string]any{"nameservers": []string{"10.0.0.10"}},
				"networks":  []map[string]any{{"name": "default/net", "default": true}},
				"tags":      tags("shoot--a--b", "node", "mcm.gardener.cloud/machineclass", "class-1"),
				"additionalVolumes": []map[string]any{
					{"name": "data", "dataVolume": map[string]any{
						"source": map[string]any{"blank": map[string]any{}},
						"pvc":    map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": 1024}}},
					}},
					{"name": "scratch", "volumeSource": map[string]any{"emptyDisk": map[string]any{"capacity": "1Gi"}}},
				},
				"devices": map[string]any{"disks": []map[string]any{{"name": "root-disk", "cache": "none"}}},
				"cpu":     map[string]any{"cores": 2}, "memory": map[string]any{"guest": "4Gi"},
			}),
		},
		{
			Name: "defaults", Class: class(nil), Defaulted: class(map[string]any{
				"runStrategy":  "Always",
				"instancetype": map[string]any{"name": "small", "kind": "VirtualMachineClusterInstancetype"},
			}).Spec,
		},
	}
}

func rules() []cloudtest.Rule {
	rule := func(reason string, change map[string]any, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: field + " " + reason, Reason: reason, Class: class(change), Field: field, Severity: severity,
		}
	}
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	volume := func(fields map[string]any) map[string]any {
		return map[string]any{"additionalVolumes": []map[string]any{fields}}
	}
	disks := func(disks ...map[string]any) map[string]any {
		return map[string]any{"devices": map[string]any{"disks": disks}}
	}
	return []cloudtest.Rule{
		rule("required by MCM", map[string]any{"region": ""}, "providerSpec.region", create),
		rule("required by MCM", map[string]any{"zone": ""}, "providerSpec.zone", create),
		rule("MCM takes quantities as numbers", sized(map[string]any{"cpu": 2, "memory": "4Gi"}), "", 0),
		rule("required by MCM", sized(map[string]any{"memory": "4Gi"}), "providerSpec.resources.requests.cpu", create),
		rule("not nothing", sized(map[string]any{"cpu": "0", "memory": "4Gi"}), "providerSpec.resources.requests.cpu",
			create),
		rule("required by MCM", sized(map[string]any{"cpu": "2"}), "providerSpec.resources.requests.memory", create),
		rule("no quantity", sized(map[string]any{"cpu": "2", "memory": "4 GB"}), "providerSpec.resources.requests.memory",
			create),
		rule("required by MCM", map[string]any{"rootVolume": map[string]any{}},
			"providerSpec.rootVolume.pvc.resources.requests.storage", create),
		rule("required by MCM", volume(map[string]any{"volumeSource": map[string]any{"emptyDisk": map[string]any{}}}),
			"providerSpec.additionalVolumes[0].name", create),
		rule("MCM wants a source", volume(map[string]any{"name": "a"}), "providerSpec.additionalVolumes[0]", create),
		rule("KubeVirt has others, which are none of pods' networks", map[string]any{"podNetworkBinding": "sriov"},
			"providerSpec.podNetworkBinding", create),
		rule("the network takes the place of that of pods", map[string]any{
			"podNetworkBinding": "bridge", "networks": []map[string]any{{"name": "default/net", "default": true}},
		}, "providerSpec.podNetworkBinding", warning),
		rule("MCM's enum", map[string]any{"dnsPolicy": "Never"}, "providerSpec.dnsPolicy", create),
		rule("MCM wants nameservers", map[string]any{"dnsPolicy": "None"}, "providerSpec.dnsConfig.nameservers", create),
		rule("MCM's rule: the root disk boots", disks(map[string]any{"name": "root-disk", "bootOrder": 1}),
			"providerSpec.devices.disks[0].bootOrder", create),
		rule("MCM's rule: a disk is of a volume", disks(map[string]any{"name": "x"}), "providerSpec.devices.disks[0].name",
			create),
		rule("MCM's rule: one disk a volume", disks(map[string]any{"name": "root-disk"}, map[string]any{"name": "root-disk"}),
			"providerSpec.devices.disks[1].name", create),
		rule("the VMs would be everybody's", map[string]any{"tags": nil}, "providerSpec.tags", all),
		rule("MCM goes by all tags", map[string]any{"tags": map[string]string{"a": "b"}}, "providerSpec.tags", warning),
		rule("no label", map[string]any{"tags": tags("c1", "node", "a b", "c")}, "providerSpec.tags[a b]", all),
		rule("no label", map[string]any{"tags": tags("c1", "node", "a", "-")}, "providerSpec.tags[a]", all),
		rule("two sizes", map[string]any{"cpu": map[string]any{"cores": 2}}, "providerSpec.cpu", create),
		rule("two sizes", map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "4Gi"}}},
			"providerSpec.resources.limits.memory", create),
		rule("two sizes", map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": 2}}},
			"providerSpec.resources.requests.cpu", create),
		rule("an instance type says nothing of it", map[string]any{"resources": map[string]any{
			"requests": map[string]any{"ephemeral-storage": "1Gi"}, "overcommitGuestOverhead": true,
		}}, "", 0),
		rule("KubeVirt refuses GPUs beside a type that has some", map[string]any{"devices": map[string]any{
			"gpus": []map[string]any{{"name": "gpu1", "deviceName": "nvidia.com/TU104GL"}},
		}}, "providerSpec.devices.gpus", warning),
		rule("nothing starts it", map[string]any{"runStrategy": "Manual"}, "providerSpec.runStrategy", create),
		rule("no controller here evacuates it", map[string]any{"evictionStrategy": "External"},
			"providerSpec.evictionStrategy", warning),
		rule("a misspelt field", map[string]any{"colour": "red"}, "providerSpec.colour", warning),
	}
}

// secrets are spellings of the kubeconfig. What would run a program or read a file of the manager
// is refused.
func secrets() []cloudtest.Secret {
	changed := func(old, with string) func(v cloud.Credentials) cloud.Credentials {
		return func(v cloud.Credentials) cloud.Credentials {
			text := strings.Replace(string(v["kubeconfig"]), old, with, 1)
			return cloud.Credentials{"kubeconfig": []byte(text)}
		}
	}
	bad := func(name, reason, old, with string) cloudtest.Secret {
		return cloudtest.Secret{Name: name, Reason: reason, Missing: "secret.kubeconfig", Credentials: changed(old, with)}
	}
	const token, user = " token:", "\n        x:"
	return []cloudtest.Secret{
		{Name: "newline", Reason: "editors add one", Credentials: func(v cloud.Credentials) cloud.Credentials {
			return cloud.Credentials{"kubeconfig": append(slices.Clone(v["kubeconfig"]), '\n')}
		}},
		{
			Name: "none", Reason: "without it nothing works", Missing: "secret.kubeconfig",
			Credentials: func(cloud.Credentials) cloud.Credentials { return nil },
		},
		bad("no context", "it names none", "current-context: infra", "a: b"),
		bad("no YAML", "a typo", "clusters:", "\tclusters: ["),
		bad("exec", "it would run a program", token, " exec: {command: id}"+user),
		bad("token file", "it would read a file", token, " tokenFile: /etc/passwd"+user),
		bad("CA file", "it would read a file", "certificate-authority-data:", "certificate-authority:"),
		bad("password", "API servers take none", token, " username: admin"+user),
		bad("impersonation", "the permissions would be another's", token, " as: admin"+user+" 1\n        token:"),
		bad("no server", "there is no server to ask", "server:", "sewer:"),
		bad("no certificate", "it is no PEM", "certificate-authority-data:", "certificate-authority-data: YQ==\n        x:"),
	}
}

func errorRows() []cloudtest.ErrorRow {
	reply := func(status int, reason, message string) cloudtest.Reply {
		return cloudtest.Reply{Status: status, Body: fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q}`, reason, message)}
	}
	post := func(c cloudtest.Call) bool { return strings.HasSuffix(c.Op, "/virtualmachines") && c.Mutates }
	slow := reply(http.StatusTooManyRequests, "TooManyRequests", "too many requests")
	slow.Header = map[string]string{"Retry-After": "7"}
	quota := reply(http.StatusForbidden, "Forbidden",
		"virtualmachines.kubevirt.io w is forbidden: exceeded quota: q, requested: count/virtualmachines.kubevirt.io=1")
	return []cloudtest.ErrorRow{
		{
			Name: "quota", Op: "create", Match: post, Reply: quota, Code: cloud.Exhausted, Reason: "ExceededQuota",
			Of: &cloud.Offering{InstanceType: "small"},
		},
		{Name: "no right", Op: "create", Match: post, Reply: reply(403, "Forbidden", "not allowed"), Code: cloud.Denied},
		{Name: "invalid", Op: "create", Match: post, Reply: reply(422, "Invalid", "spec is wrong"), Code: cloud.Invalid},
		{Name: "strict", Op: "create", Match: post, Reply: reply(400, "BadRequest", "unknown field"), Code: cloud.Invalid},
		{
			Name: "webhook", Op: "create", Match: post, Code: cloud.Invalid,
			Reply: reply(400, "", "admission webhook virt denied the request: no"),
		},
		{
			Name: "webhook is away", Op: "create", Match: post, Code: cloud.Unavailable,
			Reply: reply(500, "InternalError", "failed calling webhook virt"), Reason: "WebhookFailed",
		},
		{Name: "no namespace", Op: "create", Match: post, Reply: reply(404, "NotFound", "no namespace"), Code: cloud.Invalid},
		{Name: "throttled", Op: "create", Match: post, Reply: slow, Code: cloud.Throttled, After: 7 * time.Second},
		{Name: "conflict", Op: "delete", Reply: reply(409, "Timeout", "again"), Code: cloud.Unavailable},
		{
			Name: "expired page", Op: "list", Reply: reply(410, "Expired", "too old"), Code: cloud.Unavailable,
			Reason: "Expired",
		},
		{Name: "failing", Op: "list", Reply: cloudtest.Reply{Status: 503}, Code: cloud.Unavailable},
		{Name: "forbidden", Op: "get", Reply: reply(403, "Forbidden", "no"), Code: cloud.Denied, Reason: "Forbidden"},
		{Name: "type", Op: "capacity", Reply: reply(404, "NotFound", "no type"), Code: cloud.Invalid},
	}
}
