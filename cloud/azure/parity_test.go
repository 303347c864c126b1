package azure_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/parity"
)

// TestParity compares the driver with MCM's for Azure (provider-azure 234641e3 with MCM v0.62.1), whose
// requests were recorded; of the records, only the folder of keys is changed, in classes and requests alike.
func TestParity(t *testing.T) {
	t.Parallel()
	parity.Run(t, parity.Suite{File: "testdata/parity.jsonl", Ours: requestsForParity, Rules: parityRules()})
}

func parityRules() []parity.Rule {
	const none = "MCM sends an empty value; the driver sends none, so that Azure takes its default"
	return []parity.Rule{
		{
			Path:   `osDisk/(caching|managedDisk=\{\})|managedDisk/(storageAccountType|securityProfile)`,
			Reason: none,
		},
		{
			Cases: `c-p\.(capacityReservation=1|identityID=1|securityProfile=6).*|c-av-emptyid-and-zone|c-vmss-empty-and-zone|` +
				`e-machineSet-noid-and-zone`,
			Path:   `capacityReservation|identity|securityType|securityProfile=\{\}|availabilitySet|virtualMachineScaleSet`,
			Reason: none,
		},
		{
			Path: `linuxConfiguration/disablePasswordAuthentication`,
			Reason: "MCM sends false and no password; a VM that has none can only take keys. Its users can have no password " +
				"from the class either way, which neither driver reads",
		},
		{
			Path:   `publicKeys\[0\]/path`,
			Reason: "MCM sends an empty path; Azure puts keys into the home of the user alone, which is the driver's default",
		},
		{
			Cases: `c-p\.osProfile\.linuxConfiguration=6-.*`, Path: `publicKeys\[0\]/keyData`,
			Reason: "the driver cuts off the line end of a key",
		},
		{
			Cases: "f-disk-image-gallery-id", Path: `creationData/(galleryImageReference|imageReference)`,
			Reason: "Azure's description wants images of galleries in galleryImageReference",
		},
		{
			Cases: "g-spot", Path: `properties/(priority|evictionPolicy)`,
			Reason: "priority is a field of the driver's own",
		},
		{
			Cases: "d-case-dup|d-case-dup-tags", Path: `location|tags/b`,
			Reason: "of two spellings of a field the driver takes the exact one, and says so; MCM takes the last, or both",
		},
		{
			Cases: `c-tags=[35]-.*`, Path: parity.Stricter,
			Reason: "Azure takes neither a slash in the key of a tag nor two keys that differ by case; nothing is lost by " +
				"saying so early",
		},
		{
			Cases: `c-tags=6-.*`, Path: parity.Stricter,
			Reason: "Azure takes 50 tags, and the driver's own are among them",
		},
		{
			Cases: "c-noplace|c-av-empty-alone|e-machineSet-empty", Path: parity.Looser,
			Reason: "without a zone or a set Azure chooses, which the driver says in a warning",
		},
		{
			Cases: "e-machineSet-av-and-vmss-empty", Path: parity.Looser,
			Reason: "a set without an id is not set, so that the older machineSet counts",
		},
		{
			Cases: `c-cloudConfiguration=4-.*|c-p\.capacityReservation=2-.*|c-p\.networkProfile\.networkInterfaces=1-.*|` +
				"d-userdata-empty",
			Path: parity.Looser, Reason: "what is empty counts as left out, or has no effect",
		},
		{
			Cases: `c-p\.securityProfile=8-.*|c-p\.storage\.diskControllerType=3-.*|c-tags=4-.*`, Path: parity.Looser,
			Reason: "Azure ignores case",
		},
	}
}

// parityInput is what the cloud of a case has.
type parityInput struct {
	UserData *string
	Machine  string
	Plan     bool // the image has one
	Accepted bool // and its terms are accepted
	Gone     bool // the cloud shows no image
}

// subscription is a cloud that accepts all requests, and keeps them.
type subscription struct {
	parityInput

	login http.RoundTripper
	asked map[string]map[string]any // by method and path
}

func (c *subscription) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/token") {
		return c.login.RoundTrip(r)
	}
	status, answer := http.StatusNotFound, `{"error":{"code":"ResourceNotFound","message":"none"}}`
	switch path := r.URL.Path; {
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var asked map[string]any
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, err
		}
		c.asked[path] = asked
		status, answer = http.StatusCreated, `{"properties":{"provisioningState":"Succeeded"}}`
	case strings.Contains(path, "/agreements/"):
		answer, _ := json.Marshal(map[string]any{"id": path, "name": "a", "properties": map[string]any{
			"accepted": c.Accepted, "plan": "pn", "product": "po", "publisher": "pp",
		}})
		return reply(r, http.StatusOK, string(answer)), nil
	case strings.HasSuffix(path, "/versions") && !c.Gone:
		status, answer = http.StatusOK, `[{"name":"latest"}]`
	case strings.Contains(path, "/versions/") && c.Plan:
		status, answer = http.StatusOK, `{"properties":{"plan":{"name":"pn","product":"po","publisher":"pp"}}}`
	case strings.Contains(path, "/versions/") && !c.Gone:
		status, answer = http.StatusOK, `{"properties":{}}`
	}
	return reply(r, status, answer), nil
}

func reply(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// requestsForParity are those for a VM of the class of a case.
func requestsForParity(t *testing.T, c parity.Case) ([]parity.Request, error) {
	t.Helper()
	now := newClock().Now
	calls := &subscription{
		login: cloudtest.HandlerTransport(azuretest.New(settings(t), now)), asked: map[string]map[string]any{},
	}
	calls.Machine = "m1"
	if len(c.Input) > 0 && json.Unmarshal(c.Input, &calls.parityInput) != nil {
		t.Fatalf("%s: input %s", c.Name, c.Input)
	}
	data := "#cloud-config\nhostname: x\n"
	if calls.UserData != nil {
		data = *calls.UserData
	}
	d := azure.NewDriver(azure.Options{Transport: calls, Now: now})
	class, problems := d.Parse(cloud.ClassInput{Name: "class", Namespace: "ns", Spec: c.Class})
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		return nil, err
	}
	a, err := d.Open(t.Context(), class, credentials())
	if err != nil {
		t.Fatal(err)
	}
	r := cloud.CreateRequest{
		Ref:   cloud.Ref{Name: calls.Machine, OwnerID: "22222222-2222-4222-8222-222222222222", Class: class},
		Token: "11111111", UserData: []byte(data), Tags: map[string]string{cloud.ClusterIDTag: "c-1"},
		Checkpoint: func(context.Context, string) error { return nil },
	}
	if _, err = a.Create(t.Context(), r); err != nil {
		return nil, err
	}
	text, err := json.Marshal(calls.plain(calls.Machine))
	if err != nil {
		t.Fatal(err)
	}
	var bodies map[string]any
	if err := json.Unmarshal(text, &bodies); err != nil {
		t.Fatal(err)
	}
	var all []parity.Request
	for op, body := range bodies {
		all = append(all, parity.Request{Op: op, Body: body})
	}
	return all, nil
}

// plain are the requests in the form of the records: without what the driver adds to each, and with the
// interface, which MCM makes before the VM, on its own.
func (c *subscription) plain(machine string) map[string]any {
	all := map[string]any{}
	for path, asked := range c.asked {
		untag(asked)
		name := path[strings.LastIndexByte(path, '/')+1:]
		switch {
		case strings.Contains(path, "/disks/"):
			all["disk "+name] = asked
		case name == machine:
			all["vm"], all["nic"] = asked, interfaceOf(asked)
		default:
			all["PUT "+path] = asked
		}
	}
	return all
}

// untag removes the tags of the driver.
func untag(asked map[string]any) {
	tags, _ := asked["tags"].(map[string]any)
	maps.DeleteFunc(tags, func(key string, _ any) bool { return strings.HasPrefix(key, "mcm.cluster.x-k8s.io~2f") })
}

// interfaceOf takes the interface out of the request for a VM, and hides the key that was made up.
func interfaceOf(vm map[string]any) map[string]any {
	properties := vm["properties"].(map[string]any)
	network := properties["networkProfile"].(map[string]any)
	delete(properties, "networkProfile")
	nic := network["networkInterfaceConfigurations"].([]any)[0].(map[string]any)
	untag(nic)
	of := nic["properties"].(map[string]any)
	vm["nicRef"] = map[string]any{"deleteOption": of["deleteOption"], "primary": of["primary"]}
	var ips []any
	for _, one := range of["ipConfigurations"].([]any) {
		ip := one.(map[string]any)
		subnet := ip["properties"].(map[string]any)["subnet"].(map[string]any)
		ips = append(ips, map[string]any{
			"name": ip["name"], "subnet": subnet["id"],
			"alloc": "Dynamic", "version": "IPv4", // what Azure takes where a request says nothing
		})
	}
	keys := properties["osProfile"].(map[string]any)["linuxConfiguration"].(map[string]any)["ssh"].(map[string]any)
	for _, one := range keys["publicKeys"].([]any) {
		if key := one.(map[string]any); len(key["keyData"].(string)) > len("ssh-rsa")+300 {
			key["keyData"] = "<dummy>"
		}
	}
	return map[string]any{
		"accel": of["enableAcceleratedNetworking"], "fwd": of["enableIPForwarding"], "ips": ips,
		"location": vm["location"], "name": nic["name"], "nsg": of["networkSecurityGroup"], "tags": nic["tags"],
		"type": "Standard",
	}
}
