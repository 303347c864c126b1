package openstack_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/parity"
)

// canned answers as the services did when MCM's driver was recorded: what has a name exists, a server runs at once,
// Nova makes a port in each network that has none, and a change replaces what it names. The forms of answers are those
// of the services' API references. Invented are: that everything with a name exists but what is called none-such or
// m9.none, that nothing takes time, and all ids that are not in the recording.
type canned struct {
	region  string
	serial  int
	made    []parity.Request
	ports   []map[string]any
	servers []map[string]any
	volumes []map[string]any
	noHost  func(server map[string]any) bool // Nova finds no host for it; nil: for each
}

// named are the ids of what the recording names.
func named() map[string]string {
	return map[string]string{
		"m1.small": "84361f97-9e5c-42bc-8250-75c0e5bccf5f", "m1.xmedium": "51f0a0fb-3715-45dd-86f1-79c3898ed663",
		"gardenlinux": "c0a1fe1e-8055-49bd-834a-540d2b68112e",
		"n1":          "df826647-0871-49e7-88c8-36b2c6bfa512", "n2": "59175d9c-d2b6-43dc-864e-5d76074c0e20",
		"sg": "f3b5f618-8c68-496f-85b6-e901ceda3e9f", "shoot--p--s": "2be29f1d-6c90-4e90-8dfc-fcf01c052ab3",
		"zz": "77c01278-71ed-487f-8e04-32baf4ec76c5", "aa": "769820b9-fcc2-4069-8439-286e82a0c8c4",
	}
}

func (c *canned) id(kind int) string {
	c.serial++
	return fmt.Sprintf("00000000-0000-4000-8000-%04d%08d", kind, c.serial)
}

// ServeHTTP answers one request, and notes it if it makes or changes something.
func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if text, _ := io.ReadAll(r.Body); len(text) > 0 {
		_ = json.Unmarshal(text, &body)
	}
	op := r.Method + " " + r.URL.Path
	if op == "POST /v3/auth/tokens" {
		op = "LOGIN"
		w.Header().Set("X-Subject-Token", "t")
	}
	if r.Method != http.MethodGet {
		c.made = append(c.made, parity.Request{Op: op, Body: body})
	}
	status, answer := c.answer(r, op, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *canned) answer(r *http.Request, op string, body map[string]any) (status int, answer any) {
	type object = map[string]any
	query, last := r.URL.Query(), r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case op == "LOGIN":
		return http.StatusCreated, c.token()
	case op == "GET /compute/v2.1/flavors/detail":
		names := named()
		return http.StatusOK, object{"flavors": []object{
			{"name": "m1.small", "id": names["m1.small"]}, {"name": "m1.xmedium", "id": names["m1.xmedium"]},
		}}
	case op == "GET /compute/v2.1/servers/detail":
		return http.StatusOK, object{"servers": c.servers}
	case op == "POST /compute/v2.1/servers":
		return http.StatusAccepted, object{"server": c.makeServer(body)}
	case op == "POST /network/v2.0/ports":
		p := maps.Clone(body["port"].(object))
		p["id"] = c.id(1)
		c.ports = append(c.ports, p)
		return http.StatusCreated, object{"port": p}
	case op == "GET /network/v2.0/ports":
		return http.StatusOK, object{"ports": slices.DeleteFunc(slices.Clone(c.ports), func(p object) bool {
			return query.Has("name") && p["name"] != query.Get("name") ||
				query.Has("device_id") && p["device_id"] != query.Get("device_id")
		})}
	case r.Method == http.MethodPut && strings.HasSuffix(op, "/tags"):
		c.port(strings.Split(r.URL.Path, "/")[4])["tags"] = body["tags"]
		return http.StatusOK, body
	case r.Method == http.MethodPut && strings.HasPrefix(op, "PUT /network/v2.0/ports/"):
		maps.Copy(c.port(last), body["port"].(object))
		return http.StatusOK, object{"port": c.port(last)}
	case op == "POST /volume/v3/p/volumes":
		v := maps.Clone(body["volume"].(object))
		v["id"], v["status"] = c.id(2), "available"
		c.volumes = append(c.volumes, v)
		return http.StatusAccepted, object{"volume": v}
	case op == "GET /volume/v3/p/volumes/detail":
		return http.StatusOK, object{"volumes": c.volumes}
	case strings.HasPrefix(op, "GET /compute/v2.1/servers/") && len(c.servers) > 0:
		return http.StatusOK, object{"server": c.servers[0]}
	case strings.HasPrefix(op, "DELETE /compute/v2.1/servers/"):
		c.servers = slices.DeleteFunc(c.servers, func(s object) bool { return s["id"] == last })
		return http.StatusNoContent, nil
	case r.Method == http.MethodGet && query.Has("name"):
		return http.StatusOK, object{strings.ReplaceAll(last, "-", "_"): c.byName(query.Get("name"))}
	}
	return http.StatusNotFound, object{"itemNotFound": object{"code": http.StatusNotFound, "message": "not found: " + op}}
}

func (c *canned) byName(name string) []map[string]any {
	if name == "none-such" {
		return nil
	}
	return []map[string]any{{"name": name, "id": cmp.Or(named()[name], c.id(3))}}
}

// token is Keystone's answer, with all services in the one region.
func (c *canned) token() any {
	var catalog []any
	for kind, url := range map[string]string{
		"compute": "compute/v2.1", "network": "network", "image": "image", "volumev3": "volume/v3/p",
	} {
		catalog = append(catalog, map[string]any{"type": kind, "endpoints": []any{map[string]any{
			"interface": "public", "region": c.region, "region_id": c.region, "url": "http://cloud.invalid/" + url,
		}}})
	}
	return map[string]any{"token": map[string]any{"catalog": catalog, "project": map[string]any{"id": "p"}}}
}

func (c *canned) port(id string) map[string]any {
	for _, p := range c.ports {
		if p["id"] == id {
			return p
		}
	}
	return map[string]any{}
}

// makeServer returns a server that runs, with a port in each of its networks, or one for which there is no host.
func (c *canned) makeServer(body map[string]any) map[string]any {
	asked := body["server"].(map[string]any)
	now := time.Now().UTC().Format(time.RFC3339)
	s := map[string]any{
		"id": c.id(0), "name": asked["name"], "metadata": asked["metadata"], "status": "ACTIVE", "created": now,
		"updated": now, "OS-SRV-USG:launched_at": now, "flavor": map[string]any{"id": asked["flavorRef"]},
	}
	c.servers = append(c.servers, s)
	if c.noHost != nil && c.noHost(body) {
		s["status"], s["OS-SRV-USG:launched_at"] = "ERROR", nil
		s["fault"] = map[string]any{"message": "No valid host was found. There are not enough hosts available."}
		return s
	}
	networks, _ := asked["networks"].([]any)
	for _, n := range networks {
		network := n.(map[string]any)
		if id, own := network["port"]; own {
			c.port(fmt.Sprint(id))["device_id"] = s["id"]
			continue
		}
		c.ports = append(c.ports, map[string]any{"id": c.id(1), "network_id": network["uuid"], "device_id": s["id"]})
	}
	return s
}

// requests are those that made or changed something, and how the ports of the server are then.
func (c *canned) requests() []parity.Request {
	all := slices.Clone(c.made)
	for _, p := range c.ports {
		tags := p["tags"]
		if tags == nil {
			tags = []any{}
		}
		pairs := p["allowed_address_pairs"]
		if pairs == nil {
			pairs = []any{}
		}
		all = append(all, parity.Request{Op: "(result) port", Body: map[string]any{
			"fixed_ips": p["fixed_ips"], "groups": p["security_groups"], "network": p["network_id"], "pairs": pairs,
			"tags": tags,
		}})
	}
	return all
}

// effective leaves of a request what takes effect: a port counts as it is in the end; the groups of a server have no
// effect beside a port that has its own; and ids that a service gives out differ.
func effective(r parity.Request) (parity.Request, bool) {
	switch r.Op {
	case "LOGIN", "(result) port":
		return r, true
	case "POST /volume/v3/p/volumes":
		withoutOwn(r.Body.(map[string]any)["volume"].(map[string]any)["metadata"])
		return r, true
	case "POST /compute/v2.1/servers":
	default:
		return r, false
	}
	server := r.Body.(map[string]any)["server"].(map[string]any)
	withoutOwn(server["metadata"])
	networks, _ := server["networks"].([]any)
	for _, n := range networks {
		if network := n.(map[string]any); network["port"] != nil {
			network["port"] = "made"
			delete(server, "security_groups")
		}
	}
	disks, _ := server["block_device_mapping_v2"].([]any)
	for _, d := range disks {
		if disk := d.(map[string]any); disk["source_type"] == "volume" {
			disk["uuid"] = "made"
		}
	}
	return r, true
}

func withoutOwn(metadata any) {
	tags, _ := metadata.(map[string]any)
	maps.DeleteFunc(tags, func(key string, _ any) bool { return strings.HasPrefix(key, "mcm.cluster.x-k8s.io-") })
}

// paritySecrets are the edits of the Secret of the cases that have one; an empty value takes an entry away.
func paritySecrets() map[string]map[string]string {
	return map[string]map[string]string{
		"s-appcred": {
			"username": "", "password": "", "domainName": "", "tenantName": "", "applicationCredentialID": "aid",
			"applicationCredentialSecret": "as",
		},
		"s-appcred-name":          {"password": "", "applicationCredentialName": "an", "applicationCredentialSecret": "as"},
		"s-authurl-slash":         {"authURL": "http://keystone.invalid/v3/"},
		"s-both-domain":           {"domainID": "did"},
		"s-both-tenant":           {"tenantID": "tid"},
		"s-domainID":              {"domainName": "", "domainID": "did"},
		"s-insecure-true-newline": {"insecure": "true\n"},
		"s-no-userdata":           {"userData": ""},
		"s-password-inner-spaces": {"password": " p \n"},
		"s-spaces":                {"username": " u ", "password": " p ", "domainName": "dom\n", "tenantName": " proj"},
		"s-tenantID":              {"tenantName": "", "tenantID": "tid"},
	}
}

// parityDecisions are the classes of which OpenStack is asked for something else than by MCM's driver.
func parityDecisions() map[string]parity.Decision {
	all := map[string]parity.Decision{}
	decide := func(reason string, differences []string, cases ...string) {
		for _, name := range cases {
			all[name] = parity.Decision{Reason: reason, Differences: differences}
		}
	}
	pairs := func(mcm string, ours ...string) []string {
		differences := []string{`-(result) port/pairs[0]/ip_address="` + mcm + `"`}
		for i, pair := range ours {
			differences = append(differences, fmt.Sprintf("+(result) port/pairs[%d]/ip_address=%q", i, pair))
		}
		return differences
	}
	const v4, v6 = "100.96.0.0/11", "2001:db8::/56"
	const every = "the pods of each range are reached; MCM's driver changes the port once for each, and the last one stays"
	decide(every, pairs(v6, v4, v6), "a-gardener-dualstack", "e-dualstack-nova-port", "e-cidr-and-v6")
	decide(every, pairs(v4, "10.0.0.0/8", v4), "c-two-cidrs", "e-cidr-sorts-last-own-port")
	decide(every, pairs(v4, "100.64.0.0/12", v4), "e-cidr-and-cidrs")
	decide("a port of two clusters is found by both keys; MCM's driver takes one of them", []string{
		`-(result) port/tags[0]="kubernetes.io-cluster-d"`, `-(result) port/tags[1]="kubernetes.io-role-node"`,
		`+(result) port/tags[0]="kubernetes.io-cluster-c"`, `+(result) port/tags[1]="kubernetes.io-cluster-d"`,
		`+(result) port/tags[2]="kubernetes.io-role-node"`,
	}, "c-tags-two-clusters-own-port")

	const blank = "a blank entry names nothing, and Nova and Neutron refuse it; a warning says that it is left out"
	decide(blank, []string{`-POST /compute/v2.1/servers/server/security_groups[0]/name=""`}, "d-groups-blank")
	decide(blank, []string{`-(result) port/pairs[0]={}`, `+(result) port/pairs=[]`}, "d-pods-blank")
	decide(blank, []string{parity.Looser}, "d-groups-blank-own-port", "d-subnetIDs-blank")

	decide("the id counts; MCM's driver leaves the project to the user's default", []string{
		`+LOGIN/auth/scope/project/id="tid"`,
	}, "s-tenantID")
	decide("the login works", []string{parity.Looser}, "s-appcred-name", "s-domainID", "s-insecure-true-newline")
	decide("a VM needs no boot data", []string{parity.Looser}, "s-no-userdata")
	decide("Neutron takes the id of a group", []string{parity.Looser}, "c-group-uuid-own-port")
	decide("Neutron refuses a subnet that does not exist, without a look-up before", []string{parity.Looser},
		"c-subnet-unknown")
	decide("one key may have both marks", []string{parity.Looser}, "c-tags-both-marks")
	return all
}

// TestParity: what the services are asked for is what MCM's driver (provider-openstack 07427c6, August 2026, recorded
// against canned answers) asked for.
func TestParity(t *testing.T) {
	t.Parallel()
	parity.Run(t, parity.Suite{
		File: "testdata/parity.jsonl", Ours: parityRequests, Normalize: effective, Decisions: parityDecisions(),
	})
}

// parityRequests is what the services are asked for, or why the class is refused.
func parityRequests(t *testing.T, c parity.Case) ([]parity.Request, error) {
	t.Helper()
	services := &canned{}
	d := openstack.NewDriver(openstack.Options{Transport: cloudtest.HandlerTransport(services)})
	class, problems := d.Parse(cloud.ClassInput{Name: "c", Namespace: "default", Spec: c.Class})
	services.region = class.Region
	creds := cloud.Credentials{
		"authURL": []byte("http://keystone.invalid/v3"), "domainName": []byte("dom"), "tenantName": []byte("proj"),
		"username": []byte("u"), "password": []byte("p"), "userData": []byte("#cloud-config\n"),
	}
	for key, value := range paritySecrets()[c.Name] {
		if creds[key] = []byte(value); value == "" {
			delete(creds, key)
		}
	}
	if err := cloud.Worst("parse", append(problems, d.CheckSecret(class, creds)...), cloud.BlocksCreate); err != nil {
		return nil, err
	}
	a, err := d.Open(t.Context(), class, creds)
	if err != nil {
		return nil, err
	}
	r := cloud.CreateRequest{
		Ref:   cloud.Ref{Name: "m-1", OwnerID: "o", Class: class, Created: time.Now()},
		Token: "00000000-0000-4000-8000-000000000001", UserData: creds["userData"],
	}
	r.Checkpoint = func(_ context.Context, state string) error { r.State = state; return nil }
	for range 20 {
		vm, err := a.Create(t.Context(), r)
		if err != nil && len(services.servers) == 0 {
			return nil, err // what was made before goes with the machine
		}
		if err != nil || vm.RetryAfter <= 0 {
			return services.requests(), err
		}
		r.ProviderID = vm.ProviderID
	}
	t.Fatalf("%s: the VM is not finished", c.Name)
	return nil, nil
}
