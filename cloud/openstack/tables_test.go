package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// samples are classes as MCM's users have them.
func samples() []cloudtest.Sample {
	return []cloudtest.Sample{
		{Name: "smallest", Class: class("small", nil), Defaulted: newSpec(spec{
			"rootDiskSize": 0, "securityGroups": []string{}, "networks": []any{}, "subnetIDs": []string{}, "imageID": "",
			"podNetworkCidr": "",
		})},
		{
			Name: "with deprecated fields", Class: class("old", spec{
				"podNetworkCIDRs": nil, "podNetworkCidr": "100.64.0.0/11",
				"subnetID": "s-1",
			}),
			Defaulted: newSpec(spec{"subnetIDs": []string{"s-1"}}),
		},
		{
			Name: "several networks", Class: class("networks", spec{"networkID": nil, "networks": []any{spec{
				"id":         "n-1",
				"podNetwork": true,
			}, spec{"name": "b"}}}),
			Defaulted: newSpec(spec{"networkID": nil, "networks": []any{
				spec{"id": "n-1", "name": "", "podNetwork": true},
				spec{"id": "", "name": "b", "podNetwork": false},
			}}),
		},
		{Name: "full", Class: class("full", spec{
			"imageID": "i-1", "securityGroups": []string{"a", "b"}, "subnetIDs": []string{"s-1", "s-2"},
			"podNetworkCIDRs": []string{"100.64.0.0/11", "fd00::/48"},
			"rootDiskSize":    50, "rootDiskType": "fast", "useConfigDrive": true,
			"serverGroupID": "33333333-3333-4333-8333-333333333333",
		})},
		{Name: "fields beside MCM's", Class: class("more", spec{
			"keyName": nil, "withoutKeyPair": true, "availabilityZone": nil, "withoutAvailabilityZone": true,
			"podNetworkCIDRs": nil, "withoutPodNetworkCIDRs": true, "floatingIPPool": "public", "subnets": []string{"a"},
			"serverGroup": "g", "defaultSecurityGroup": "kubernetes-v1",
		})},
		{
			Name: "without port security", Class: class("open", spec{"disablePortSecurity": true, "podNetworkCIDRs": nil}),
			Defaulted: newSpec(spec{"disablePortSecurity": true, "podNetworkCIDRs": []string{}}),
		},
	}
}

// rules is the validation table.
func rules() []cloudtest.Rule {
	row := func(reason string, raw []byte, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: fmt.Sprintf("%s %s", field, raw), Reason: reason,
			Class: cloud.ClassInput{Name: "rule", Namespace: "default", Spec: raw}, Field: field, Severity: severity,
		}
	}
	rule := func(reason string, edits spec, field string, severity cloud.Severity) cloudtest.Rule {
		if field != "" {
			field = "providerSpec.spec." + field
		}
		return row(reason, newSpec(edits), field, severity)
	}
	top := func(reason string, edits spec, field string, severity cloud.Severity) cloudtest.Rule {
		var all spec
		if err := json.Unmarshal(newSpec(nil), &all); err != nil {
			panic(err)
		}
		text, err := json.Marshal(edit(all, edits))
		if err != nil {
			panic(err)
		}
		return row(reason, text, "providerSpec."+field, severity)
	}
	tags := func(more spec, keys ...string) spec {
		all := spec{}
		for _, key := range keys {
			all[key] = "1"
		}
		return spec{"tags": edit(all, more)}
	}
	both := func(more spec) spec { return tags(more, clusterKey, roleKey) }
	networks := func(n ...any) spec { return spec{"networkID": nil, "networks": n} }
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("the smallest spec", nil, "", 0),
		rule("an image by its id", spec{"imageName": nil, "imageID": "i-1"}, "", 0),
		rule("an image by both: the id wins", spec{"imageID": "i-1"}, "", 0),
		rule("networks in a list", networks(spec{"id": "n-1"}, spec{"name": "b", "podNetwork": true}), "", 0),
		rule("no disk of its own", spec{"rootDiskSize": 0}, "", 0),
		rule("the mark may stand anywhere in a key", tags(nil, "x-kubernetes.io-cluster-c1", "x-kubernetes.io-role-node"), "",
			0),
		rule("null is as good as nothing", spec{
			"useConfigDrive": json.RawMessage("null"),
			"securityGroups": json.RawMessage("null"),
		}, "", 0),
		top("MCM's decoder asks for it", spec{"apiVersion": nil}, "apiVersion", create),
		top("MCM's decoder knows one", spec{"apiVersion": "openstack.machine.gardener.cloud/v1"}, "apiVersion", create),
		row("MCM's decoder knows one", []byte(strings.Replace(string(newSpec(nil)), `"kind":"MachineProviderConfig",`, "",
			1)), "", 0),
		top("MCM's decoder knows one", spec{"kind": "Other"}, "kind", create),
		top("MCM's decoder asks for it", spec{"kind": 1}, "kind", create),
		top("there is no spec", spec{"spec": "x"}, "spec", all),
		top("nothing but a version", spec{"spec": nil}, "spec.region", all),
		top("unknown fields are ignored", spec{"more": 1}, "more", warning),
		rule("every call needs it", spec{"region": nil}, "region", all),
		rule("every call needs it", spec{"region": 1}, "region", all),
		rule("nothing is owned without", tags(nil, roleKey), "tags", all),
		rule("nothing is owned without", tags(nil, clusterKey), "tags", all),
		rule("nothing is owned without", spec{"tags": nil}, "tags", all),
		rule("tags are a map", spec{"tags": []string{"a"}}, "tags", all),
		rule("a tag is a string", both(spec{"x": 1}), "tags[x]", create),
		rule("the manager sets it", both(spec{ownerKey: "x"}), "tags["+ownerKey+"]", warning),
		rule("Nova takes no slash", both(spec{"a/b": "1"}), "tags[a/b]", warning),
		rule("it would be a step in a path", both(spec{"..": "1"}), "tags[..]", create),
		rule("it would be a step in a path", both(spec{".": "1"}), "tags[.]", create),
		rule("it could be no step in a path", both(spec{"": "1"}), "tags[]", create),
		rule("dots are letters", both(spec{"...": "1", "a..": "1"}), "", 0),
		rule("Nova takes 255 characters", both(spec{"a": strings.Repeat("b", 256)}), "tags[a]", warning),
		rule("one of the two", spec{"imageName": nil}, "imageName", create),
		rule("required", spec{"availabilityZone": nil}, "availabilityZone", create),
		rule("required", spec{"flavorName": " "}, "flavorName", create),
		rule("a name is a string", spec{"flavorName": 1}, "flavorName", create),
		rule("required", spec{"keyName": nil}, "keyName", create),
		rule("one of the two", spec{"networks": []any{spec{"id": "n-1"}}}, "networks", create),
		rule("one of the two", spec{"networkID": nil}, "networks", create),
		rule("one of the two", networks(spec{}), "networks[0]", create),
		rule("one of the two", networks(spec{"id": "a", "name": "b"}), "networks[0]", create),
		rule("a network is an object", networks("a"), "networks[0]", create),
		rule("a boolean is no string", networks(spec{"id": "a", "podNetwork": "true"}), "networks[0].podNetwork", create),
		rule("MCM knows no such field, and keys have their case", networks(spec{"ID": "a", "id": "a"}), "networks[0].ID",
			warning),
		rule("subnets belong to networkID", edit(networks(spec{"id": "a"}), spec{"subnetIDs": []string{"s"}}), "subnetIDs",
			warning),
		rule("it was replaced", spec{"subnetID": "s"}, "subnetID", warning),
		rule("it is one more", spec{"subnetID": "s", "subnetIDs": []string{"t"}}, "subnetID", warning),
		rule("it names nothing", spec{"subnetIDs": []string{" ", "t"}}, "subnetIDs[0]", warning),
		rule("it names nothing", spec{"networkID": " "}, "networkID", create),
		rule("one of the two", spec{"podNetworkCIDRs": nil}, "podNetworkCIDRs", create),
		rule("a list of strings", spec{"podNetworkCIDRs": []any{1}}, "podNetworkCIDRs[0]", create),
		rule("a list", spec{"podNetworkCIDRs": "100.64.0.0/11"}, "podNetworkCIDRs", create),
		rule("Neutron will refuse it", spec{"podNetworkCIDRs": []string{"x"}}, "podNetworkCIDRs[0]", warning),
		rule("it was replaced", spec{"podNetworkCIDRs": nil, "podNetworkCidr": "100.64.0.0/11"}, "podNetworkCidr", warning),
		rule("it is one more", spec{"podNetworkCidr": "100.64.0.0/11"}, "podNetworkCidr", warning),
		rule("it names nothing", spec{"podNetworkCIDRs": []string{""}}, "podNetworkCIDRs[0]", warning),
		rule("no less than nothing", spec{"rootDiskSize": -1}, "rootDiskSize", create),
		rule("a size is a number", spec{"rootDiskSize": "20"}, "rootDiskSize", create),
		rule("a type of nothing", spec{"rootDiskType": "fast"}, "rootDiskType", warning),
		rule("a boolean is no string", spec{"useConfigDrive": "yes"}, "useConfigDrive", create),
		rule("an id is a string", spec{"serverGroupID": 1}, "serverGroupID", create),
		rule("Nova takes a UUID", spec{"serverGroupID": "a-group"}, "serverGroupID", create),
		rule("names are strings", spec{"securityGroups": []any{1}}, "securityGroups[0]", create),
		rule("an empty name says nothing", spec{"securityGroups": []string{""}}, "securityGroups[0]", warning),
		rule("keys have their case", spec{"FlavorName": "x"}, "FlavorName", warning),
		rule("a network that is external", spec{"floatingIPPool": "public"}, "", 0),
		rule("a name is a string", spec{"floatingIPPool": 1}, "floatingIPPool", create),
		rule("a boolean is no string", spec{"disablePortSecurity": "true"}, "disablePortSecurity", create),
		rule("nothing passes a port on purpose", spec{"disablePortSecurity": true, "podNetworkCIDRs": nil}, "", 0),
		rule("all addresses pass", spec{"disablePortSecurity": true}, "podNetworkCIDRs", warning),
		rule("groups need port security", spec{
			"disablePortSecurity": true, "podNetworkCIDRs": nil, "securityGroups": []string{"a"},
		}, "securityGroups", warning),
		rule("groups need port security", spec{
			"disablePortSecurity": true, "podNetworkCIDRs": nil, "defaultSecurityGroup": "a",
		}, "defaultSecurityGroup", warning),
		rule("made where there is none", spec{"defaultSecurityGroup": "kubernetes-v1"}, "", 0),
		rule("MCM's field counts", spec{"defaultSecurityGroup": "a", "securityGroups": []string{"b"}},
			"defaultSecurityGroup", warning),
		rule("by id or name", spec{"subnets": []string{"a"}}, "", 0),
		rule("in a list of networks, too", edit(networks(spec{"name": "n"}), spec{"subnets": []string{"a"}}), "", 0),
		rule("MCM's field counts", spec{"subnets": []string{"a"}, "subnetIDs": []string{"b"}}, "subnets", warning),
		rule("an empty name means nothing", spec{"subnets": []string{""}}, "subnets[0]", create),
		rule("a list", spec{"subnets": "a"}, "subnets", create),
		rule("by id or name", spec{"serverGroup": "a"}, "", 0),
		rule("MCM's field counts", spec{
			"serverGroup": "a", "serverGroupID": "33333333-3333-4333-8333-333333333333",
		}, "serverGroup", warning),
		rule("left out on purpose", spec{"keyName": nil, "withoutKeyPair": true}, "", 0),
		rule("MCM's field counts", spec{"withoutKeyPair": true}, "withoutKeyPair", warning),
		rule("required", spec{"keyName": nil, "withoutKeyPair": false}, "keyName", create),
		rule("left out on purpose", spec{"availabilityZone": nil, "withoutAvailabilityZone": true}, "", 0),
		rule("MCM's field counts", spec{"withoutAvailabilityZone": true}, "withoutAvailabilityZone", warning),
		rule("left out on purpose", spec{"podNetworkCIDRs": nil, "withoutPodNetworkCIDRs": true}, "", 0),
		rule("MCM's field counts", spec{"withoutPodNetworkCIDRs": true}, "withoutPodNetworkCIDRs", warning),
	}
}

func providerIDs() []cloudtest.ProviderID {
	const id = "423f3a5e-0c1d-4a8b-9d3e-5f6a7b8c9d0e"
	return []cloudtest.ProviderID{
		{Form: "MCM", Value: "openstack:///RegionOne/" + id, ID: id},
		{Form: "cloud controller manager", Value: "openstack:///" + id, ID: id},
		{Form: "cloud controller manager with regions", Value: "openstack://RegionOne/" + id, ID: id},
		{Form: "upper case", Value: "openstack:///" + strings.ToUpper(id), ID: id, Reason: "people paste it"},
		{Form: "region with a slash", Value: "openstack:///a/b/" + id, ID: id, Reason: "nobody checks a region"},
		{Form: "AWS", Value: "aws:///eu-west-1/" + id},
		{Form: "no UUID", Value: "openstack:///RegionOne/vm-1"},
		{Form: "without slash", Value: "openstack://" + id},
		{Form: "nothing", Value: "openstack:///"},
	}
}

func volumes() []cloudtest.Volume {
	return []cloudtest.Volume{
		{Name: "CSI", Volume: cloud.Volume{Driver: "cinder.csi.openstack.org", Handle: "v-1"}, ID: "v-1"},
		{Name: "in tree", Volume: cloud.Volume{Driver: "kubernetes.io/cinder", Handle: "v-1"}, ID: "v-1"},
		{Name: "without handle", Volume: cloud.Volume{Driver: "cinder.csi.openstack.org"}},
		{Name: "Manila", Volume: cloud.Volume{Driver: "manila.csi.openstack.org", Handle: "v-1"}},
	}
}

// said is an answer of Nova or Cinder.
func said(status int, kind, message string) cloudtest.Reply {
	text, err := json.Marshal(map[string]any{kind: map[string]any{"code": status, "message": message}})
	if err != nil {
		panic(err)
	}
	return cloudtest.Reply{Status: status, Body: string(text)}
}

// neutron is an answer of Neutron.
func neutron(status int, kind, message string) cloudtest.Reply {
	text, err := json.Marshal(map[string]any{"NeutronError": map[string]any{
		"type": kind, "message": message,
		"detail": "",
	}})
	if err != nil {
		panic(err)
	}
	return cloudtest.Reply{Status: status, Body: string(text)}
}

// errorRows is what the services answer, and what comes of it.
func errorRows(w way) []cloudtest.ErrorRow {
	region := &cloud.Offering{Region: rig.Region, InstanceType: rig.FlavorSmall}
	zone := &cloud.Offering{Region: rig.Region, Zone: rig.Zone, InstanceType: rig.FlavorSmall}
	hosts := *zone // for what the class asks of them
	hosts.CapacityType = "image " + rig.Image
	create := func(name string, reply cloudtest.Reply, code cloud.Code, reason string,
		of *cloud.Offering,
	) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{
			Name: "create " + name, Op: "create", Match: cloudtest.Op("POST servers"), Reply: reply,
			Code: code, Reason: reason, Of: of,
		}
	}
	list := func(name string, reply cloudtest.Reply, code cloud.Code, reason string,
		after time.Duration,
	) cloudtest.ErrorRow {
		if after > 0 {
			reply.Header = map[string]string{"Retry-After": fmt.Sprint(int(after.Seconds()))}
		}
		return cloudtest.ErrorRow{Name: "list " + name, Op: "list", Reply: reply, Code: code, Reason: reason, After: after}
	}
	plain := func(status int) cloudtest.Reply { return cloudtest.Reply{Status: status, Body: "<html>no</html>"} }
	at := func(r cloudtest.ErrorRow, op string, match ...string) cloudtest.ErrorRow {
		r.Op, r.Name = op, op+strings.TrimPrefix(r.Name, "list")
		if len(match) > 0 {
			r.Match = cloudtest.Op(match...)
		}
		return r
	}
	rows := []cloudtest.ErrorRow{
		create("quota", said(http.StatusForbidden, "forbidden",
			"Quota exceeded for cores: Requested 1, but already used 15 of 15 cores"), cloud.Exhausted, "OverQuota", region),
		create("no host at once", said(http.StatusInternalServerError, "computeFault", "No valid host was found."),
			cloud.Exhausted, "NoValidHost", &hosts),
		create("over limit", said(http.StatusForbidden, "overLimit", "Maximum number of ports exceeded"), cloud.Exhausted,
			"OverQuota", nil),
		create("address", said(http.StatusBadRequest, "badRequest", "No fixed IP addresses available for network: x"),
			cloud.Exhausted, "IpAddressGenerationFailure", nil),
		create("volumes", said(http.StatusRequestEntityTooLarge, "overLimit",
			"VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'."), cloud.Exhausted,
			"OverQuota", nil),
		create("old rate limit", said(http.StatusRequestEntityTooLarge, "overLimit", "This request was rate-limited."),
			cloud.Throttled, "OverLimit", nil),
		create("not allowed", said(http.StatusForbidden, "forbidden",
			"Policy doesn't allow os_compute_api:servers:create to be performed."), cloud.Denied, "Forbidden", nil),
		create("bad request", said(http.StatusBadRequest, "badRequest", "Invalid key_name provided."), cloud.Invalid,
			"BadRequest", nil),
		create("not there", said(http.StatusNotFound, "itemNotFound", "Security group x could not be found."), cloud.Invalid,
			"ItemNotFound", nil),
		create("conflict", said(http.StatusConflict, "conflictingRequest", "Port x is still in use."), cloud.Unavailable,
			"ConflictingRequest", nil),
		create("fault", said(http.StatusInternalServerError, "computeFault", "Unexpected API Error."), cloud.Unavailable,
			"ComputeFault", nil),
		create("no JSON", cloudtest.Reply{Status: http.StatusAccepted, Body: "xxxxxxxx"}, cloud.Unavailable, "", nil),
		list("throttled", plain(http.StatusTooManyRequests), cloud.Throttled, "TooManyRequests", 7*time.Second),
		list("forbidden", said(http.StatusForbidden, "forbidden", "no"), cloud.Denied, "Forbidden", 0),
		list("proxy", plain(http.StatusBadGateway), cloud.Unavailable, "HTTP502", 0),
		list("maintenance", plain(http.StatusServiceUnavailable), cloud.Unavailable, "HTTP503", 30*time.Second),
		list("gone", plain(http.StatusNotFound), cloud.Unknown, "HTTP404", 0),
		list("bad request", said(http.StatusBadRequest, "badRequest", "no"), cloud.Unknown, "BadRequest", 0),
		list("unauthorized", cloudtest.Reply{
			Status: http.StatusUnauthorized,
			Body: `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires ` +
				`authentication."}}`,
		}, cloud.Denied, "Unauthorized", 0),
		at(list("ports", neutron(http.StatusConflict, "x", "y"), cloud.Unavailable, "X", 0), "list", "GET ports"),
		at(list("fault", plain(http.StatusInternalServerError), cloud.Unavailable, "HTTP500", 0), "get"),
		at(list("forbidden", said(http.StatusForbidden, "forbidden", "no"), cloud.Denied, "Forbidden", 0), "delete",
			"DELETE servers/…"),
		at(list("conflict", said(http.StatusConflict, "conflictingRequest", "busy"), cloud.Unavailable, "ConflictingRequest",
			0), "delete", "DELETE servers/…"),
		at(list("fault", plain(http.StatusInternalServerError), cloud.Unavailable, "HTTP500", 0), "capacity"),
		{
			Name: "create without flavor", Op: "create", Match: cloudtest.Op("GET flavors/detail"),
			Reply: cloudtest.Reply{Status: 200, Body: `{"flavors": []}`}, Code: cloud.Exhausted, Reason: "FlavorNotFound",
			Of: zone,
		},
		{
			Name: "create without image", Op: "create", Match: cloudtest.Op("GET images"),
			Reply: cloudtest.Reply{Status: 200, Body: `{"images": []}`}, Code: cloud.Invalid, Reason: "NotOne",
		},
	}
	if w == novaPort {
		return rows
	}
	const listed = 12 // what Nova says of the server itself is tried the other way
	port := func(name string, reply cloudtest.Reply, code cloud.Code, reason string) cloudtest.ErrorRow {
		r := create(name, reply, code, reason, nil)
		r.Match = cloudtest.Op("POST ports")
		return r
	}
	return append(rows[listed-1:len(rows)-1],
		port("port quota", neutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['port']."),
			cloud.Exhausted, "OverQuota"),
		port("port address", neutron(http.StatusConflict, "IpAddressGenerationFailure",
			"No more IP addresses available on network x."), cloud.Exhausted, "IpAddressGenerationFailure"),
		port("port network", neutron(http.StatusNotFound, "NetworkNotFound", "Network x could not be found."), cloud.Invalid,
			"NetworkNotFound"),
		port("port subnet", neutron(http.StatusBadRequest, "InvalidInput",
			"Invalid input for operation: Failed to create port on network x, because fixed_ips included invalid subnet y."),
			cloud.Invalid, "InvalidInput"),
		cloudtest.ErrorRow{
			Name: "create volume quota", Op: "create", Match: cloudtest.Op("POST volumes"), Code: cloud.Exhausted,
			Reason: "OverQuota",
			Reply: said(http.StatusRequestEntityTooLarge, "overLimit",
				"VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota."),
		},
	)
}
