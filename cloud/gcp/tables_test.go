package gcp_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

// full is a class with every field set that goes together with the others.
func full(*cloudtest.Fixture) cloud.ClassInput {
	return class(spec{
		"canIpForward": true, "deletionProtection": true, "description": "a node", "minCpuPlatform": "Intel Ice Lake",
		"disks": []any{
			bootDisk(spec{
				"autoDelete": true, "labels": map[string]string{"disk": "boot"}, "provisionedIops": 3000,
				"provisionedThroughput": 150, "storagePool": "zones/europe-west1-b/storagePools/p",
				"encryption": spec{"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k", "kmsKeyServiceAccount": "k@p"},
			}),
			spec{"sizeGb": 375, "type": "SCRATCH", "interface": "NVME"},
		},
		"gpu":      spec{"acceleratorType": "nvidia-tesla-t4", "count": 2},
		"labels":   map[string]string{"team": "a", "name": "golden"},
		"metadata": []any{spec{"key": "serial-port-enable", "value": "TRUE"}, spec{"key": "empty"}},
		"networkInterfaces": []any{
			spec{
				"network": "vpc", "subnetwork": "nodes", "stackType": "IPV4_IPV6", "ipv6accessType": "EXTERNAL",
				"useAliasIPs": true, "ipCidrRange": "/24", "subnetworkRangeName": "pods",
			},
			spec{"subnetwork": "projects/host/regions/europe-west1/subnetworks/shared", "disableExternalIP": true},
		},
		"scheduling": spec{"onHostMaintenance": "TERMINATE", "provisioningModel": "SPOT", "preemptible": true},
		"serviceAccounts": []any{
			spec{"email": "n@p.iam.gserviceaccount.com", "scopes": []string{"cloud-platform"}},
		},
		"shieldedInstanceConfiguration": spec{"integrityMonitoring": true, "secureBoot": true, "vtpm": true},
		"advancedMachineFeatures":       spec{"enableNestedVirtualization": true},
		"tags":                          []string{"kubernetes-io-cluster-c", "kubernetes-io-role-node", "web"},
	})
}

func golden() *cloudtest.Golden {
	return &cloudtest.Golden{
		File: "testdata/create.golden", Class: full,
		Normalize: func(c cloudtest.Call) string {
			var text bytes.Buffer
			_ = json.Indent(&text, c.Body, "", " ")
			return c.Op + "\n" + text.String()
		},
	}
}

func samples() []cloudtest.Sample {
	fields := func(change spec) spec {
		var all spec
		_ = json.Unmarshal(class(change).Spec, &all)
		return all
	}
	gardener := fields(spec{"apiVersion": "mcm.gardener.cloud/v1", "secret": spec{"projectID": "p"}})
	text, _ := json.Marshal(gardener)
	return []cloudtest.Sample{
		{
			Name: "smallest", Class: class(nil),
			Defaulted: class(spec{"disks": []any{bootDisk(spec{"autoDelete": true})}}).Spec,
		},
		{Name: "unknown fields", Class: cloud.ClassInput{Name: "class", Namespace: "ns", Spec: text}},
		{Name: "full", Class: full(nil)},
		{Name: "other case", Class: cloud.ClassInput{
			Name: "class", Namespace: "ns",
			Spec: []byte(strings.Replace(string(class(nil).Spec), `"machineType"`, `"MachineTYPE"`, 1)),
		}},
	}
}

func rules() []cloudtest.Rule {
	rule := func(reason string, change spec, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: field + " " + reason, Reason: reason, Class: class(change), Field: field, Severity: severity,
		}
	}
	disk := func(change spec) spec { return spec{"disks": []any{bootDisk(change)}} }
	nic := func(n spec) spec { return spec{"networkInterfaces": []any{n}} }
	schedule := func(s spec) spec { return spec{"scheduling": s} }
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("labels are optional", spec{"labels": nil}, "", 0),
		rule("MCM needs it for every call", spec{"zone": ""}, "providerSpec.zone", all),
		rule("a class has one region", spec{"zones": []string{"us-east1-b"}}, "providerSpec.zones[0]", create),
		rule("names have a form", spec{"instanceGroups": []string{"A"}}, "providerSpec.instanceGroups[0]", create),
		rule("an instance joins once", spec{"instanceGroups": []string{"a", "a"}}, "providerSpec.instanceGroups[1]", create),
		rule("MCM requires it", spec{"region": ""}, "providerSpec.region", create),
		rule("MCM accepts another region", spec{"region": "us-east1"}, "providerSpec.region", warning),
		rule("MCM requires it", spec{"machineType": ""}, "providerSpec.machineType", create),
		rule("without both marks MCM finds nothing again", tags("kubernetes-io-cluster-c"), "providerSpec.tags", all),
		rule("a tag with both marks counts as one of a cluster", tags("kubernetes-io-cluster-kubernetes-io-role-x"),
			"providerSpec.tags", all),
		rule("MCM requires one", spec{"disks": []any{}}, "providerSpec.disks", create),
		rule("MCM has no least size", disk(spec{"sizeGb": 10}), "", 0),
		rule("without a size it is the image's", disk(spec{"sizeGb": nil}), "", 0),
		rule("a scratch disk has the size of its kind", spec{"disks": []any{
			bootDisk(nil), spec{"type": "SCRATCH", "interface": "NVME"},
		}}, "", 0),
		rule("MCM accepts it, the cloud does not", disk(spec{"sizeGb": -1}), "providerSpec.disks[0].sizeGb", warning),
		rule("the cloud makes 500 GB", spec{"disks": []any{bootDisk(nil), spec{"type": "pd-ssd"}}},
			"providerSpec.disks[1].sizeGb", warning),
		rule("MCM crashes", spec{"disks": []any{bootDisk(nil), nil}}, "providerSpec.disks[1]", create),
		rule("a local disk takes no key", spec{"disks": []any{
			bootDisk(nil), spec{"type": "SCRATCH", "interface": "NVME", "encryption": spec{"kmsKeyName": "k"}},
		}}, "providerSpec.disks[1].encryption", warning),
		rule("MCM requires it", disk(spec{"image": ""}), "providerSpec.disks[0].image", create),
		rule("MCM requires it", disk(spec{"type": "SCRATCH"}), "providerSpec.disks[0].interface", create),
		rule("MCM knows two", disk(spec{"type": "SCRATCH", "interface": "IDE"}), "providerSpec.disks[0].interface", create),
		rule("MCM requires it", disk(spec{"encryption": spec{"kmsKeyName": " "}}),
			"providerSpec.disks[0].encryption.kmsKeyName", create),
		rule("MCM refuses blanks", disk(spec{"encryption": spec{"kmsKeyName": "k", "kmsKeyServiceAccount": " "}}),
			"providerSpec.disks[0].encryption.kmsKeyServiceAccount", create),
		rule("MCM requires one", spec{"networkInterfaces": nil}, "providerSpec.networkInterfaces", create),
		rule("MCM requires one of two", nic(spec{}), "providerSpec.networkInterfaces[0]", create),
		rule("MCM knows two", nic(spec{"network": "n", "stackType": "IPV6"}), "providerSpec.networkInterfaces[0].stackType",
			create),
		rule("MCM knows two", nic(spec{"network": "n", "ipv6accessType": "ANY"}),
			"providerSpec.networkInterfaces[0].ipv6accessType", create),
		rule("MCM knows lengths", nic(spec{"network": "n", "ipCidrRange": "/33"}),
			"providerSpec.networkInterfaces[0].ipCidrRange", create),
		rule("the user data has it", spec{"metadata": []any{spec{"key": "user-data"}}},
			"providerSpec.metadata[0].key", create),
		rule("MCM requires it", schedule(spec{}), "providerSpec.scheduling.onHostMaintenance", create),
		rule("MCM knows two", schedule(spec{"onHostMaintenance": "STOP"}),
			"providerSpec.scheduling.onHostMaintenance", create),
		rule("MCM refuses GPUs that migrate", spec{"gpu": spec{"acceleratorType": "t4", "count": 1}},
			"providerSpec.scheduling.onHostMaintenance", create),
		rule("MCM requires it", spec{"gpu": spec{"count": 1}}, "providerSpec.gpu.acceleratorType", create),
		rule("MCM wants one", spec{"gpu": spec{"acceleratorType": "t4"}}, "providerSpec.gpu.count", create),
		rule("the cloud knows two", schedule(spec{"onHostMaintenance": "TERMINATE", "provisioningModel": "CHEAP"}),
			"providerSpec.scheduling.provisioningModel", create),
		rule("the cloud refuses both", schedule(spec{
			"onHostMaintenance": "TERMINATE", "provisioningModel": "STANDARD", "preemptible": true,
		}), "providerSpec.scheduling.provisioningModel", create),
		rule("MCM accepts what the cloud refuses", schedule(spec{"onHostMaintenance": "MIGRATE", "preemptible": true}),
			"providerSpec.scheduling", warning),
		rule("MCM accepts capitals", spec{"labels": map[string]string{"Team": "a"}}, "providerSpec.labels[Team]", warning),
		rule("a misspelt field", spec{"colour": "red"}, "providerSpec.colour", warning),
	}
}

// key returns the credentials with a field of the key changed; nil removes it.
func key(field string, value any) func(cloud.Credentials) cloud.Credentials {
	return func(v cloud.Credentials) cloud.Credentials {
		var all map[string]any
		_ = json.Unmarshal(v["serviceAccountJSON"], &all)
		if all[field] = value; value == nil {
			delete(all, field)
		}
		text, _ := json.Marshal(all)
		return cloud.Credentials{"serviceAccountJSON": text}
	}
}

func secrets() []cloudtest.Secret {
	const entry, field = "serviceAccountJSON", "secret.serviceAccountJSON"
	type change = func(cloud.Credentials) cloud.Credentials
	under := func(name string, text func(cloud.Credentials) []byte, more ...string) change {
		return func(v cloud.Credentials) cloud.Credentials {
			c := cloud.Credentials{name: text(v)}
			for _, other := range more {
				c[other] = []byte(gcptest.Project)
			}
			return c
		}
	}
	valid := func(v cloud.Credentials) []byte { return append(slices.Clone(v[entry]), '\n') }
	nothing := func(cloud.Credentials) []byte { return []byte("x") }
	federation := func(cloud.Credentials) []byte { return gcptest.Federation() }
	changed := func(old, now string) func(cloud.Credentials) []byte {
		return func(cloud.Credentials) []byte {
			return bytes.ReplaceAll(gcptest.Federation(), []byte(old), []byte(now))
		}
	}
	return []cloudtest.Secret{
		{Name: "newline", Reason: "editors add one", Credentials: under(entry, valid)},
		{Name: "old entry", Reason: "MCM knows it", Credentials: under("serviceaccount.json", valid)},
		{Name: "workload identity", Reason: "MCM knows it", Credentials: under("credentialsConfig", federation, "projectID")},
		{
			Name: "project beside the key", Reason: "MCM takes projectID then",
			Credentials: func(v cloud.Credentials) cloud.Credentials {
				c := key("project_id", nil)(v)
				c["projectID"] = []byte(gcptest.Project)
				return c
			},
		},
		{
			Name: "none", Reason: "without credentials nothing works", Missing: field,
			Credentials: func(cloud.Credentials) cloud.Credentials { return nil },
		},
		{Name: "no project", Reason: "calls need it", Credentials: key("project_id", nil), Missing: "secret.projectID"},
		{Name: "no key", Reason: "nothing can be signed", Credentials: key("private_key", "?"), Missing: field},
		{Name: "no email", Reason: "the assertion names its author", Credentials: key("client_email", nil), Missing: field},
		{Name: "type", Reason: "MCM knows two", Credentials: key("type", "authorized_user"), Missing: field},
		{Name: "more fields", Reason: "MCM refuses them", Credentials: key("credential_source", "x"), Missing: field},
		{Name: "http", Reason: "the assertion could be read", Credentials: key("token_uri", "http://x"), Missing: field},
		{Name: "universe", Reason: "its addresses differ", Credentials: key("universe_domain", "x.example"), Missing: field},
		{Name: "no JSON", Reason: "it says nothing", Credentials: under(entry, nothing), Missing: field},
		{
			Name: "another file", Reason: "MCM refuses it: it could be any of the manager's",
			Missing:     "secret.credentialsConfig",
			Credentials: under("credentialsConfig", changed("/var/run/secrets/gardener.cloud", "/etc"), "projectID"),
		},
		{
			Name: "another service", Reason: "MCM refuses it: it could be anybody's", Missing: "secret.credentialsConfig",
			Credentials: under("credentialsConfig", changed("sts.googleapis.com", "sts.example"), "projectID"),
		},
		{
			Name: "another impersonation", Reason: "MCM refuses it: it could be anybody's", Missing: "secret.credentialsConfig",
			Credentials: under("credentialsConfig", changed("iamcredentials.googleapis.com", "iam.example"), "projectID"),
		},
	}
}

// failed is an operation that ended with an error.
func failed(code, message string) cloudtest.Reply {
	text, _ := json.Marshal(map[string]any{
		"kind": "compute#operation", "name": "operation-1", "status": "DONE",
		"error": map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}},
	})
	return cloudtest.Reply{Status: http.StatusOK, Body: string(text)}
}

// refused is the API's answer to a call that it refuses.
func refused(status int, reason, message string) cloudtest.Reply {
	text, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code": status, "message": message, "errors": []any{map[string]string{"reason": reason, "message": message}},
	}})
	return cloudtest.Reply{Status: status, Body: string(text)}
}

func errorRows() []cloudtest.ErrorRow {
	post := func(c cloudtest.Call) bool { return strings.HasPrefix(c.Op, http.MethodPost) && !c.Login }
	region := &cloud.Offering{Region: gcptest.Region, InstanceType: "n2-standard-2", CapacityType: "on-demand"}
	here := &cloud.Offering{
		Region: gcptest.Region, Zone: zone, InstanceType: "n2-standard-2", CapacityType: "on-demand",
	}
	type offering = *cloud.Offering
	row := func(name string, reply cloudtest.Reply, code cloud.Code, reason string, of offering) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{Name: name, Op: "create", Match: post, Reply: reply, Code: code, Reason: reason, Of: of}
	}
	slow := refused(http.StatusTooManyRequests, "rateLimitExceeded", "slow down")
	slow.Header = map[string]string{"Retry-After": "7"}
	throttled := row("throttled with a hint", slow, cloud.Throttled, "RateLimitExceeded", nil)
	throttled.After = 7 * time.Second
	minute := row("throttled", refused(403, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'"),
		cloud.Throttled, "", nil)
	get := func(name string, reply cloudtest.Reply, op string, code cloud.Code) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{Name: name, Op: op, Reply: reply, Code: code}
	}
	const stock = "The zone does not have enough resources available to fulfill the request."
	return []cloudtest.ErrorRow{
		row("stock", failed("ZONE_RESOURCE_POOL_EXHAUSTED", stock), cloud.Exhausted, "ZoneResourcePoolExhausted", here),
		row("stock in detail", failed("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", stock), cloud.Exhausted,
			"ZoneResourcePoolExhausted", here),
		row("stock at once", refused(503, "INSUFFICIENT_CAPACITY", stock), cloud.Exhausted,
			"ZoneResourcePoolExhausted", here),
		row("type not in zone", refused(400, "invalid", "Machine type with name 'x' does not exist in zone 'z'."),
			cloud.Exhausted, "NotInZone", here),
		row("quota of the operation", failed("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded. Limit: 8.0"), cloud.Exhausted,
			"QuotaExceeded", region),
		row("quota", refused(403, "quotaExceeded", "Quota 'CPUS' exceeded."), cloud.Exhausted, "QuotaExceeded", region),
		row("reservation", failed("RESOURCE_X", "No available resources in specified reservations"), cloud.Exhausted,
			"ReservationExhausted", region),
		row("addresses", failed("IP_SPACE_EXHAUSTED_WITH_DETAILS", "IP space is exhausted."),
			cloud.Exhausted, "IPSpaceExhausted", nil),
		throttled, minute,
		row("concurrent operations", refused(403, "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", "Quota exceeded"),
			cloud.Throttled, "", nil),
		row("policy", failed("CONDITION_NOT_MET", "Constraint constraints/compute.x violated"), cloud.Denied,
			"OrganizationPolicy", nil),
		row("permissions", failed("PERMISSIONS_ERROR", "no"), cloud.Denied, "", nil),
		row("forbidden", refused(403, "forbidden", "Required 'compute.instances.create' permission"),
			cloud.Denied, "Forbidden", nil),
		row("image", refused(404, "notFound", "The resource 'projects/p/global/images/x' was not found"),
			cloud.Invalid, "", nil),
		row("bad", refused(400, "invalid", "no"), cloud.Invalid, "", nil),
		row("usage", failed("INVALID_USAGE", "no"), cloud.Invalid, "", nil),
		row("disk is there", refused(409, "alreadyExists", "The resource 'projects/p/zones/z/disks/d' already exists"),
			cloud.Unavailable, "AlreadyExists", nil),
		row("broken operation", failed("INTERNAL_ERROR", "no"), cloud.Unavailable, "", nil),
		row("no operation", cloudtest.Reply{Status: 200, Body: "{}"}, cloud.Unavailable, "BrokenAnswer", nil),
		get("failing", cloudtest.Reply{Status: 503}, "list", cloud.Unavailable),
		get("forbidden look", refused(403, "forbidden", "no"), "get", cloud.Denied),
		get("busy deletion", refused(503, "backendError", "no"), "delete", cloud.Unavailable),
		get("no such type", refused(404, "notFound", "no"), "capacity", cloud.Invalid),
	}
}
