package vsphere_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// rules is the validation table.
func rules() []cloudtest.Rule {
	rule := func(reason string, edits spec, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: fmt.Sprintf("%s %v", field, edits), Reason: reason, Class: class("rule", edits),
			Field: field, Severity: severity,
		}
	}
	only := func(keys ...string) spec {
		all := map[string]string{}
		for _, key := range keys {
			all[key] = "1"
		}
		return spec{"tags": all}
	}
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("the smallest spec", nil, "", 0),
		rule("every field", full(), "", 0),
		rule("MCM does not ask for a region", spec{"region": nil}, "", 0),
		rule("the default datacenter", spec{"datacenter": nil}, "", 0),
		rule("the datacenter's folder", spec{"folder": nil}, "", 0),
		rule("a datastore cluster will do", spec{"datastore": nil, "datastoreCluster": "pod"}, "", 0),
		rule("a host will do", spec{"resourcePool": nil, "hostSystem": "h"}, "", 0),
		rule("Gardener's spelling", only("mcm.gardener.cloud/cluster", "mcm.gardener.cloud/role"), "", 0),
		rule("nobody says where disks go", spec{"datastore": nil}, "providerSpec.datastore", create),
		rule("nobody says where it runs", spec{"resourcePool": nil}, "providerSpec.computeCluster", create),
		rule("nothing to clone", spec{"templateVM": nil}, "providerSpec.templateVM", create),
		rule("no network", spec{"network": " "}, "providerSpec.network", create),
		rule("without a cluster tag nothing is owned", only("kubernetes.io/role/node"), "providerSpec.tags", all),
		rule("without a role tag nothing is owned", only("kubernetes.io/cluster/c1"), "providerSpec.tags", all),
		rule("an ownership tag has to name something", only("kubernetes.io/cluster/", "kubernetes.io/role/"),
			"providerSpec.tags", all),
		rule("tags are strings", spec{"tags": spec{"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1", "x": 1}},
			"providerSpec.tags[x]", create),
		rule("tags are a map", spec{"tags": "x"}, "providerSpec.tags", all),
		rule("the folder decides what is listed", spec{"folder": 1}, "providerSpec.folder", all),
		rule("a count is a number", spec{"numCpus": "2"}, "providerSpec.numCpus", create),
		rule("no less than nothing", spec{"numCpus": -1}, "providerSpec.numCpus", create),
		rule("no less than nothing", spec{"memory": -4}, "providerSpec.memory", create),
		rule("vSphere counts memory by 4 MiB", spec{"memory": 1023}, "providerSpec.memory", create),
		rule("no less than nothing", spec{"systemDisk": spec{"size": -1}}, "providerSpec.systemDisk.size", create),
		rule("a disk is an object", spec{"systemDisk": 20}, "providerSpec.systemDisk", create),
		rule("a misspelt field is found", spec{"systemDisk": spec{"sizeGB": 1}}, "providerSpec.systemDisk.sizeGB", warning),
		rule("a misspelt field is found", spec{"template": "x"}, "providerSpec.template", warning),
		rule("keys are strings", spec{"sshKeys": []any{1}}, "providerSpec.sshKeys[0]", create),
		rule("properties are strings", spec{"vapp": spec{"properties": spec{"a": 1}}}, "providerSpec.vapp.properties[a]",
			create),
		rule("MCM ignores it", spec{"computeCluster": "c"}, "providerSpec.datastore", warning),
		rule("MCM injects no keys then", spec{"vapp": spec{"properties": spec{"a": "b"}}, "sshKeys": []any{"k"}},
			"providerSpec.sshKeys", warning),
		rule("MCM injects nothing then", spec{"vapp": spec{"properties": spec{}}}, "providerSpec.vapp", warning),
		rule("it protects from nothing", spec{"force": true}, "providerSpec.force", warning),
		rule("the manager sets it", spec{"extraConfig": spec{markKey: "x"}}, "providerSpec.extraConfig["+markKey+"]",
			warning),
		rule("a class may name its zone", spec{"zone": "z"}, "", 0),
		rule("zones take the place of the class's", spec{"zones": []any{spec{
			"name": "a", "resourcePool": "p", "datastore": "d",
			"network": "n",
		}}, "resourcePool": nil, "datastore": nil, "network": nil}, "", 0),
		rule("a name is one zone's", spec{"zone": "a", "zones": []any{spec{"name": "a"}}}, "providerSpec.zones[0].name",
			create),
		rule("the class's own zone needs a place, too", spec{"zone": "z", "resourcePool": nil, "zones": []any{
			spec{"name": "a", "resourcePool": "p"},
		}}, "providerSpec.computeCluster", create),
		rule("a zone has a name", spec{"zones": []any{spec{"resourcePool": "p"}}}, "providerSpec.zones[0].name", create),
		rule("a name is one zone's", spec{"zones": []any{spec{"name": "a"}, spec{"name": "a"}}}, "providerSpec.zones[1].name",
			create),
		rule("a zone says where it runs", spec{"zones": []any{spec{"name": "a"}}, "resourcePool": nil},
			"providerSpec.zones[0].computeCluster", create),
		rule("a zone says where disks go", spec{"zones": []any{spec{"name": "a"}}, "datastore": nil},
			"providerSpec.zones[0].datastore", create),
		rule("a zone has a network", spec{"zones": []any{spec{"name": "a"}}, "network": nil}, "providerSpec.zones[0].network",
			create),
		rule("a misspelt field is found", spec{"zones": []any{spec{"name": "a", "cluster": "c"}}},
			"providerSpec.zones[0].cluster", warning),
		rule("a cluster recommends in a zone, too", spec{"zones": []any{spec{"name": "a", "computeCluster": "c"}}},
			"providerSpec.zones[0].datastore", warning),
		rule("zones are a list", spec{"zones": "a"}, "providerSpec.zones", create),
		rule("one thing is cloned", spec{"libraryItem": spec{"library": "l", "item": "i"}}, "providerSpec.libraryItem",
			create),
		rule("a library item will do", spec{"templateVM": nil, "libraryItem": spec{"library": "l", "item": "i"}}, "", 0),
		rule("an item is in a library", spec{"templateVM": nil, "libraryItem": spec{"item": "i"}},
			"providerSpec.libraryItem.library", create),
		rule("an item has a name", spec{"templateVM": nil, "libraryItem": spec{"library": "l"}},
			"providerSpec.libraryItem.item", create),
		rule("an item is an object", spec{"templateVM": nil, "libraryItem": "l/i"}, "providerSpec.libraryItem", create),
		rule("a full clone is of the template as it is", spec{"snapshot": "s"}, "providerSpec.snapshot", warning),
		rule("a linked clone may choose", spec{"linkedClone": true, "snapshot": "s"}, "", 0),
		rule("each interface has a network", spec{"additionalNetworks": []any{spec{"switchUuid": "s"}}},
			"providerSpec.additionalNetworks[0].network", create),
		rule("in a zone, too", spec{"zones": []any{spec{"name": "a", "additionalNetworks": []any{spec{}}}}},
			"providerSpec.zones[0].additionalNetworks[0].network", create),
		rule("a VM has ten interfaces at most", spec{"additionalNetworks": slices.Repeat([]any{spec{"network": "n"}}, 10)},
			"providerSpec.additionalNetworks", create),
		rule("a tag has an id", spec{"vsphereTags": []any{spec{"id": "urn:vmomi:InventoryServiceTag:1:GLOBAL"}}}, "", 0),
		rule("or a name and a category", spec{"vsphereTags": []any{named("c", "")}}, "providerSpec.vsphereTags[0].name",
			create),
		rule("or a category and a name", spec{"vsphereTags": []any{named("", "n")}}, "providerSpec.vsphereTags[0].category",
			create),
		rule("but not both", spec{"vsphereTags": []any{spec{"id": "urn:vmomi:1", "name": "n"}}},
			"providerSpec.vsphereTags[0].id", create),
		rule("a name is no id", spec{"vsphereTags": []any{spec{"id": "n"}}}, "providerSpec.vsphereTags[0].id", create),
		rule("a group is named", spec{"antiAffinityGroup": true}, "providerSpec.antiAffinityGroup", create),
		rule("a boolean is no string", spec{"waitForIP": "true"}, "providerSpec.waitForIP", create),
	}
}

// samples are classes as MCM's users have them.
func samples() []cloudtest.Sample {
	return []cloudtest.Sample{
		{Name: "smallest", Class: class("small", nil), Defaulted: newSpec(spec{
			"apiVersion": "mcm.gardener.cloud/v1alpha1", "force": false, "waitForIP": false, "guestId": "", "customization": "",
			"switchUuid":       "",
			"datastoreCluster": "", "computeCluster": "", "hostSystem": "",
		})},
		{Name: "full", Class: class("full", full())},
	}
}

func secrets() []cloudtest.Secret {
	set := func(key, value string) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials {
			if c[key] = []byte(value); value == "" {
				delete(c, key)
			}
			return c
		}
	}
	edit := func(key string, change func(string) string) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials { c[key] = []byte(change(string(c[key]))); return c }
	}
	spaced := func(v string) string { return " " + v + "\n" }
	return []cloudtest.Secret{
		{Name: "as documented", Reason: "it is", Credentials: func(c cloud.Credentials) cloud.Credentials { return c }},
		{Name: "insecure as a number", Reason: "MCM takes 1 for true", Credentials: set("vsphereInsecureSSL", "1")},
		{
			Name: "without insecure", Reason: "checking certificates is the default",
			Credentials: set("vsphereInsecureSSL", ""),
		},
		{Name: "host with white space", Reason: "base64 of echo leaves it", Credentials: edit("vsphereHost", spaced)},
		{Name: "host as URL", Reason: "users paste it", Credentials: edit("vsphereHost", func(h string) string {
			return "https://" + h + "/sdk"
		})},
		{Name: "user with white space", Reason: "base64 of echo leaves it", Credentials: edit("vsphereUsername", spaced)},
		{
			Name: "password with a newline", Reason: "base64 of echo leaves it",
			Credentials: edit("vspherePassword", func(p string) string { return p + "\n" }),
		},
		{Name: "no host", Reason: "nobody to call", Credentials: set("vsphereHost", ""), Missing: "secret.vsphereHost"},
		{
			Name: "plain HTTP", Reason: "it shows the password to the network",
			Credentials: set("vsphereHost", "http://vcenter"), Missing: "secret.vsphereHost",
		},
		{
			Name: "no user", Reason: "nobody calls", Credentials: set("vsphereUsername", " "),
			Missing: "secret.vsphereUsername",
		},
		{
			Name: "no password", Reason: "nobody calls", Credentials: set("vspherePassword", ""),
			Missing: "secret.vspherePassword",
		},
		{
			Name: "no certificate", Reason: "nobody is trusted", Credentials: set("vsphereCABundle", "x"),
			Missing: "secret.vsphereCABundle",
		},
		{
			Name: "short thumbprint", Reason: "anybody has it", Credentials: set("vsphereThumbprint", "AB:CD"),
			Missing: "secret.vsphereThumbprint",
		},
	}
}

func providerIDs() []cloudtest.ProviderID {
	const id = "423f3a5e-0c1d-4a8b-9d3e-5f6a7b8c9d0e"
	return []cloudtest.ProviderID{
		{Form: "MCM", Value: "vsphere://region-1/" + id, ID: id},
		{Form: "MCM without region", Value: "vsphere:///" + id, ID: id},
		{Form: "cloud controller manager", Value: "vsphere://" + id, ID: id},
		{Form: "upper case", Value: "vsphere://" + strings.ToUpper(id), ID: id, Reason: "hardware shows it so"},
		{Form: "region with a slash", Value: "vsphere://a/b/" + id, ID: id, Reason: "nobody checks a region"},
		{Form: "no UUID", Value: "vsphere://region-1/vm-12"},
		{Form: "UUID in braces", Value: "vsphere://{" + id + "}"},
		{Form: "nothing", Value: "vsphere://"},
	}
}

func volumes() []cloudtest.Volume {
	return []cloudtest.Volume{
		{Name: "CSI", Volume: cloud.Volume{Driver: "csi.vsphere.vmware.com", Handle: "0e4b-1"}, ID: "0e4b-1"},
		{
			Name: "in tree", Volume: cloud.Volume{Driver: "kubernetes.io/vsphere-volume", Handle: "[ds] kubevols/a.vmdk"},
			ID: "[ds] kubevols/a.vmdk",
		},
		{Name: "without handle", Volume: cloud.Volume{Driver: "csi.vsphere.vmware.com"}},
	}
}

// soapFault is how vCenter says no.
func soapFault(name string) cloudtest.Reply {
	return cloudtest.Reply{Status: 500, Body: `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" ` +
		`xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>` +
		`<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>no</faultstring><detail><` + name +
		`Fault xmlns="urn:vim25" xsi:type="` + name +
		`"></` + name + `Fault></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`}
}

// errorRows is what vCenter answers, and what comes of it.
func errorRows() []cloudtest.ErrorRow {
	row := func(op, name string, want cloud.Code) cloudtest.ErrorRow {
		r := cloudtest.ErrorRow{Name: op + " " + name, Op: op, Reply: soapFault(name), Code: want, Reason: name}
		if op == "create" {
			r.Match = cloudtest.Op("CloneVM_Task")
		}
		if want == cloud.Exhausted {
			r.Of = &cloud.Offering{Region: "region-1", Zone: "zone-a", InstanceType: "DC0_C0_RP0_VM0"}
		}
		return r
	}
	plain := func(status int, after time.Duration, want cloud.Code) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{
			Name: fmt.Sprintf("proxy answers %d", status), Op: "get", Code: want, Reason: fmt.Sprintf("HTTP%d", status),
			After: after,
			Reply: cloudtest.Reply{
				Status: status, Body: "<html>no</html>",
				Header: map[string]string{"Retry-After": fmt.Sprint(int(after.Seconds()))},
			},
		}
	}
	rows := []cloudtest.ErrorRow{
		row("create", "InsufficientResourcesFault", cloud.Exhausted),
		row("create", "InsufficientMemoryResourcesFault", cloud.Exhausted),
		row("create", "InsufficientHostCapacityFault", cloud.Exhausted), row("create", "NoDiskSpace", cloud.Exhausted),
		row("create", "NoCompatibleHost", cloud.Exhausted), row("create", "InsufficientStorageSpace", cloud.Exhausted),
		row("create", "InvalidArgument", cloud.Invalid), row("create", "InvalidVmConfig", cloud.Invalid),
		row("create", "InvalidDeviceSpec", cloud.Invalid), row("create", "NoPermission", cloud.Denied),
		row("create", "ManagedObjectNotFound", cloud.Unavailable), row("create", "DuplicateName", cloud.Unavailable),
		row("get", "NotAuthenticated", cloud.Denied), row("get", "NoPermission", cloud.Denied),
		row("get", "HostCommunication", cloud.Unavailable), row("get", "HostNotConnected", cloud.Unavailable),
		row("get", "Timedout", cloud.Unavailable), row("list", "SystemError", cloud.Unavailable),
		row("delete", "NoPermission", cloud.Denied), row("capacity", "InvalidProperty", cloud.Invalid),
		// What only a person mends, and what passes by itself.
		row("create", "QuestionPending", cloud.Denied), row("delete", "QuestionPending", cloud.Denied),
		row("create", "LicenseExpired", cloud.Denied), row("create", "PasswordExpired", cloud.Denied),
		row("create", "MethodDisabled", cloud.Unavailable), row("delete", "MethodDisabled", cloud.Unavailable),
		row("create", "TooManyConcurrentNativeClones", cloud.Unavailable), row("create", "FileLocked", cloud.Unavailable),
		row("create", "NotEnoughLicenses", cloud.Exhausted),
		row("create", "VAppTaskInProgress", cloud.Unavailable), // of a family of the table
		row("get", "NotEnoughLicenses2", cloud.Unknown),
		plain(404, 0, cloud.Unknown), plain(401, 0, cloud.Denied), plain(403, 0, cloud.Denied),
		plain(429, 7*time.Second, cloud.Throttled), plain(500, 0, cloud.Unavailable), plain(503, 0, cloud.Unavailable),
		plain(400, 0, cloud.Unknown),
	}
	rows[len(rows)-8].Reason = ""
	return append(rows, cloudtest.ErrorRow{
		Name: "no XML", Op: "get", Code: cloud.Unavailable, Reason: "NoAnswer",
		Reply: cloudtest.Reply{Status: 200, Body: "xxxxxxxxxx"},
	})
}

var header = regexp.MustCompile(`(?s)^.*?<Body[^>]*>(.*)</Body>.*$`)

// changing is what the simulator makes up each time.
var changing = regexp.MustCompile(`\b(changeVersion|macAddress|urn:vmomi:InventoryServiceTag:)(?: \S+|[^":]+)`)

// normalize returns a SOAP call as indented XML without namespaces, and a REST call as it
// is.
func normalize(c cloudtest.Call) string {
	if strings.Contains(c.Op, "/rest/") {
		return changing.ReplaceAllString(c.Op+"\n"+string(c.Body), "$1…")
	}
	body := header.ReplaceAll(c.Body, []byte("$1"))
	in, out := xml.NewDecoder(bytes.NewReader(body)), &strings.Builder{}
	depth := 0
	for {
		token, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			return changing.ReplaceAllString(out.String(), "$1 …")
		}
		switch x := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(out, "\n%s%s", strings.Repeat("  ", depth), x.Name.Local)
			for _, a := range x.Attr {
				if a.Name.Local == "type" {
					fmt.Fprintf(out, " (%s)", a.Value)
				}
			}
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			if text := strings.TrimSpace(string(x)); text != "" {
				fmt.Fprintf(out, " %s", text)
			}
		}
		if err != nil {
			return string(c.Body)
		}
	}
}

// TestFaultProxySeesCalls keeps the crash cases from being blind.
func TestFaultProxySeesCalls(t *testing.T) {
	t.Parallel()
	body := `<?xml version="1.0"?><Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body ` +
		`xmlns="x"><CloneVM_Task xmlns="urn:vim25">`
	if c := classify(nil, []byte(body)); c.Op != "CloneVM_Task" || !c.Mutates || c.Login {
		t.Errorf("got %+v, want a mutating CloneVM_Task", c)
	}
}
