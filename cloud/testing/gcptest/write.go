package gcptest

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

// insert takes a request for an instance. Its operation may fail later.
func (c *Cloud) insert(q call) (map[string]any, *refusal) {
	zone, name := q.values["zone"], fmt.Sprint(q.body["name"])
	at := zone + "/" + name
	if c.vms[at] != nil {
		return nil, refuse(http.StatusConflict, "alreadyExists",
			"The resource 'projects/%s/zones/%s/instances/%s' already exists", Project, zone, name)
	}
	if refused := checkInstance(q.body, zone); refused != nil {
		return nil, refused
	}
	if refused := c.checkNames(q.body, at); refused != nil {
		return nil, refused
	}
	v := &vm{at: at, body: q.body, made: c.options.Now()}
	v.labels = object(q.body["labels"])
	v.insert = c.begin("insert", zone, urlOf("instances", at), starting)
	if len(c.failures) > 0 {
		v.fails, c.failures = &c.failures[0], c.failures[1:]
	}
	for _, s := range c.soldOut {
		if s.Of(zone, q.body) {
			v.fails = &failure{
				"ZONE_RESOURCE_POOL_EXHAUSTED",
				"The zone '" + zone + "' does not have enough resources available to fulfill the request.",
			}
		}
	}
	c.attachAll(v)
	c.number(v)
	c.vms[at], c.moving[at] = v, v
	return c.show(v.insert), nil
}

// diskAt is the place of a disk that an instance is asked for with; the API names those that have no name
// after the instance.
func diskAt(at string, i int, asked map[string]any) string {
	params := object(asked["initializeParams"])
	name, _ := params["diskName"].(string)
	if name == "" {
		name = path.Base(at) + strings.Repeat(fmt.Sprintf("-%d", i), min(i, 1))
	}
	return path.Dir(at) + "/" + name
}

// checkNames refuses an instance that a disk is to be made for whose name is taken. The words are those of
// public reports, e.g. fog-google 467 and terraform 7998.
func (c *Cloud) checkNames(body map[string]any, at string) *refusal {
	for i, one := range list(body["disks"]) {
		d := object(one)
		if place := diskAt(at, i, d); d["type"] != "SCRATCH" && c.disks[place] != nil {
			return refuse(http.StatusConflict, "alreadyExists", "The resource 'projects/%s/zones/%s/disks/%s' already exists",
				Project, path.Dir(place), path.Base(place))
		}
	}
	return nil
}

// attachAll makes the disks of an instance, whose names are free.
func (c *Cloud) attachAll(v *vm) {
	var shown []any
	for i, one := range list(v.body["disks"]) {
		d := object(one)
		params := object(d["initializeParams"])
		out := maps.Clone(d)
		delete(out, "initializeParams")
		out["index"], out["deviceName"], out["mode"] = i, fmt.Sprintf("persistent-disk-%d", i), "READ_WRITE"
		if d["type"] != "SCRATCH" {
			at, labels := diskAt(v.at, i, d), object(params["labels"])
			c.disks[at] = &disk{
				at: at, labels: labels, made: v.made, vm: v.at, autoDelete: d["autoDelete"] == true,
				body: map[string]any{"sizeGb": params["diskSizeGb"], "status": "READY"},
			}
			out["source"] = urlOf("disks", at)
		}
		shown = append(shown, out)
	}
	v.body["disks"] = shown
}

// number gives the interfaces of an instance addresses.
func (c *Cloud) number(v *vm) {
	const octet = 250
	for i, one := range list(v.body["networkInterfaces"]) {
		n := object(one)
		c.serial++
		n["name"], n["networkIP"] = fmt.Sprintf("nic%d", i), fmt.Sprintf("10.0.%d.%d", c.serial/octet%octet, c.serial%octet+1)
		for _, a := range list(n["accessConfigs"]) {
			access := object(a)
			access["natIP"] = fmt.Sprintf("192.0.2.%d", c.serial%octet+1)
			access["type"], access["name"] = "ONE_TO_ONE_NAT", "External NAT"
		}
		for _, a := range list(n["ipv6AccessConfigs"]) {
			access := object(a)
			access["externalIpv6"] = fmt.Sprintf("2001:db8::%x", c.serial)
		}
	}
}

var (
	labelForm = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	keyForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	itemForm  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

// checkInstance refuses what the description of the API does not say.
func checkInstance(body map[string]any, zone string) *refusal {
	for _, check := range []func(map[string]any, string) *refusal{checkType, checkDisks, checkMetadata, checkScheduling} {
		if refused := check(body, zone); refused != nil {
			return refused
		}
	}
	if len(list(body["networkInterfaces"])) == 0 {
		return invalid("Invalid value for field 'resource.networkInterfaces': ''. At least one is required.")
	}
	return checkLabels(body["labels"])
}

func checkLabels(v any) *refusal {
	labels, _ := v.(map[string]any)
	const most = 64
	for key, value := range labels {
		if !keyForm.MatchString(key) || !labelForm.MatchString(fmt.Sprint(value)) {
			return invalid("Invalid value for field 'labels': '%s=%v'.", key, value)
		}
	}
	if len(labels) > most {
		return invalid("Labels: %d are more than %d.", len(labels), most)
	}
	return nil
}

func checkType(body map[string]any, zone string) *refusal {
	name := fmt.Sprint(body["machineType"])
	if !strings.HasPrefix(name, "zones/"+zone+"/machineTypes/") || machineTypes()[path.Base(name)] == nil {
		return invalid("Invalid value for field 'resource.machineType': '%s'. Machine type with name '%s' does not exist "+
			"in zone '%s'.", name, path.Base(name), zone)
	}
	return nil
}

func checkDisks(body map[string]any, _ string) *refusal {
	boots := 0
	for i, one := range list(body["disks"]) {
		d := object(one)
		params := object(d["initializeParams"])
		if d["boot"] == true {
			boots++
			if params["sourceImage"] == nil {
				return invalid("Invalid value for field 'resource.disks[%d]': a boot disk needs an image.", i)
			}
		}
		if refused := checkLabels(params["labels"]); refused != nil {
			return refused
		}
		if d["type"] == "SCRATCH" && (params["labels"] != nil || params["diskName"] != nil) {
			return invalid("Invalid value for field 'resource.disks[%d]': a scratch disk has neither name nor labels.", i)
		}
	}
	if boots != 1 {
		return invalid("Invalid value for field 'resource.disks': '%d boot disks'. There has to be one.", boots)
	}
	return nil
}

func checkMetadata(body map[string]any, _ string) *refusal {
	meta := object(body["metadata"])
	var keys []string
	const most = 256 << 10
	for _, one := range list(meta["items"]) {
		i := object(one)
		key := fmt.Sprint(i["key"])
		switch {
		case slices.Contains(keys, key):
			return invalid("Invalid value for field 'resource.metadata': duplicate key '%s'.", key)
		case !itemForm.MatchString(key), len(fmt.Sprint(i["value"])) > most:
			return invalid("Invalid value for field 'resource.metadata': '%s'.", key)
		}
		keys = append(keys, key)
	}
	return nil
}

func checkScheduling(body map[string]any, _ string) *refusal {
	s := object(body["scheduling"])
	taken := s["preemptible"] == true || s["provisioningModel"] == "SPOT"
	switch {
	case taken && (s["automaticRestart"] == true || s["onHostMaintenance"] == "MIGRATE"):
		return invalid("Invalid value for field 'scheduling': instances that may be preempted neither restart nor migrate.")
	case len(list(body["guestAccelerators"])) > 0 && s["onHostMaintenance"] != "TERMINATE":
		return invalid("Instances with guest accelerators do not support live migration.")
	}
	return nil
}

// delete begins to delete an instance. Its name stays taken until it has gone.
func (c *Cloud) delete(q call) (map[string]any, *refusal) {
	v := c.vms[q.at("instance")]
	switch {
	case v == nil:
		return nil, notFound("instances", q.values["instance"])
	case v.body["deletionProtection"] == true:
		return nil, invalid("Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'")
	case !v.deleted.IsZero():
		return nil, refuse(http.StatusBadRequest, "resourceNotReady", "The resource '%s' is not ready", v.at)
	}
	v.deleted = c.options.Now()
	if v.insert != nil && v.deleted.Before(v.insert.ends) {
		v.insert.fails, v.insert.ends = &failure{"RESOURCE_NOT_FOUND", "The resource was not found"}, v.deleted
	}
	v.fails = nil
	c.moving[v.at] = v
	return c.show(c.begin("delete", q.values["zone"], urlOf("instances", v.at), stopping)), nil
}

// deleteDisk deletes a disk that is attached to no instance.
func (c *Cloud) deleteDisk(q call) (map[string]any, *refusal) {
	d := c.disks[q.at("disk")]
	switch {
	case d == nil:
		return nil, notFound("disks", q.values["disk"])
	case d.vm != "":
		return nil, refuse(http.StatusBadRequest, "resourceInUseByAnotherResource",
			"The disk resource '%s' is already being used by '%s'", d.at, d.vm)
	}
	delete(c.disks, d.at)
	return c.show(c.begin("delete", q.values["zone"], urlOf("disks", d.at), 0)), nil
}

// restart resets, starts or resumes an instance.
func (c *Cloud) restart(q call) (map[string]any, *refusal) {
	v := c.vms[q.at("instance")]
	action := path.Base(q.URL.Path)
	from := map[string][]string{
		"reset": {"RUNNING", "REPAIRING"}, "start": {"TERMINATED", "STOPPED"}, "resume": {"SUSPENDED"},
	}
	switch {
	case v == nil:
		return nil, notFound("instances", q.values["instance"])
	case !slices.Contains(from[action], c.statusOf(v)):
		return nil, refuse(http.StatusBadRequest, "resourceNotReady", "The resource '%s' is not ready", v.at)
	}
	v.status = ""
	v.boots++
	return c.show(c.begin(action, q.values["zone"], urlOf("instances", v.at), 0)), nil
}

// setLabels replaces all labels of an instance, if the caller has seen the latest.
func (c *Cloud) setLabels(q call) (map[string]any, *refusal) {
	v := c.vms[q.at("instance")]
	switch {
	case v == nil:
		return nil, notFound("instances", q.values["instance"])
	case q.body["labelFingerprint"] != fingerprint(v.labels):
		return nil, refuse(http.StatusPreconditionFailed, "conditionNotMet",
			"Labels fingerprint either invalid or resource labels have changed")
	}
	if refused := checkLabels(q.body["labels"]); refused != nil {
		return nil, refused
	}
	v.labels = object(q.body["labels"])
	return c.show(c.begin("setLabels", q.values["zone"], urlOf("instances", v.at), 0)), nil
}

// getDisk returns a disk.
func (c *Cloud) getDisk(q call) (map[string]any, *refusal) {
	d := c.disks[q.at("disk")]
	if d == nil {
		return nil, notFound("disks", q.values["disk"])
	}
	return d.show(), nil
}

// setDiskLabels replaces all labels of a disk, if the caller has seen the latest.
func (c *Cloud) setDiskLabels(q call) (map[string]any, *refusal) {
	d := c.disks[q.at("resource")]
	switch {
	case d == nil:
		return nil, notFound("disks", q.values["resource"])
	case q.body["labelFingerprint"] != fingerprint(d.labels):
		return nil, refuse(http.StatusPreconditionFailed, "conditionNotMet",
			"Labels fingerprint either invalid or resource labels have changed")
	}
	if refused := checkLabels(q.body["labels"]); refused != nil {
		return nil, refused
	}
	d.labels = object(q.body["labels"])
	return c.show(c.begin("setLabels", q.values["zone"], urlOf("disks", d.at), 0)), nil
}

// protect sets whether an instance is protected from deletion.
func (c *Cloud) protect(q call) (map[string]any, *refusal) {
	at := q.at("resource")
	if c.vms[at] == nil {
		return nil, notFound("instances", at)
	}
	c.vms[at].body["deletionProtection"] = q.URL.Query().Get("deletionProtection") != "false"
	return c.show(c.begin("setDeletionProtection", q.values["zone"], urlOf("instances", at), 0)), nil
}

// object is an object of a request; nil if there is none.
func object(v any) map[string]any {
	all, _ := v.(map[string]any)
	return all
}

// list is a list of a request; nil if there is none.
func list(v any) []any {
	all, _ := v.([]any)
	return all
}
