package azuretest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// id is that of a resource.
func (c *Cloud) id(kind, name string) string {
	return "/subscriptions/" + Subscription + "/resourceGroups/" + c.settings.Group + "/providers/" + kind + "/" + name
}

// show is a resource as the cloud answers it.
func (c *Cloud) show(q *call, r *Resource, view bool) map[string]any {
	out := map[string]any{
		"id": c.id(r.Type, r.Name), "name": r.Name, "type": r.Type, "location": c.settings.Location, "tags": r.Tags,
	}
	if len(r.Zones) > 0 {
		out["zones"] = r.Zones
	}
	made := r.Made.Format(time.RFC3339Nano)
	switch r.Type {
	case TypeVM:
		for key, value := range map[string]any{"identity": r.Identity, "plan": r.Plan} {
			if value != nil {
				out[key] = value
			}
		}
		out["properties"] = c.vmProperties(q, r, view)
	case TypeDisk:
		if r.VM != "" {
			out["managedBy"] = c.id(TypeVM, r.VM)
		}
		out["properties"] = map[string]any{"provisioningState": c.diskState(r), "timeCreated": made}
	case TypeNIC:
		properties := map[string]any{"provisioningState": "Succeeded", "ipConfigurations": []any{map[string]any{
			"name": r.Name, "properties": map[string]any{"privateIPAddress": r.Address},
		}}}
		if r.VM != "" {
			properties["virtualMachine"] = map[string]any{"id": c.id(TypeVM, r.VM)}
		}
		out["properties"] = properties
	}
	return out
}

// vmProperties are those of a VM: what was asked for without the secrets, with the ids of
// what was made with it.
func (c *Cloud) vmProperties(_ *call, r *Resource, view bool) map[string]any {
	out := maps.Clone(r.Properties)
	if out == nil {
		out = map[string]any{}
	}
	if os, ok := out["osProfile"].(map[string]any); ok {
		os = maps.Clone(os)
		delete(os, "customData")
		out["osProfile"] = os
	}
	var refs []any
	name := strings.ToLower(r.Name)
	for _, part := range c.sorted() {
		if part.VM == name && part.Type == TypeNIC {
			refs = append(refs, map[string]any{
				"id": c.id(TypeNIC, part.Name), "properties": map[string]any{"primary": true, "deleteOption": "Delete"},
			})
		}
	}
	out["networkProfile"] = map[string]any{"networkInterfaces": append([]any{}, refs...)}
	provisioning, _ := c.state(r)
	out["provisioningState"], out["timeCreated"] = provisioning, r.Made.Format(time.RFC3339Nano)
	if view {
		out["instanceView"] = c.view(r)
	}
	return out
}

// view is the instance view of a VM.
func (c *Cloud) view(r *Resource) map[string]any {
	provisioning, power := c.state(r)
	first := map[string]any{"code": "ProvisioningState/" + strings.ToLower(provisioning), "level": "Info"}
	if provisioning == "Failed" {
		first = map[string]any{"code": "ProvisioningState/failed/" + r.FailedOf, "level": "Error", "message": r.FailureText}
	}
	statuses := []any{first}
	if power != "" {
		statuses = append(statuses, map[string]any{"code": "PowerState/" + power, "level": "Info"})
	}
	return map[string]any{"statuses": statuses}
}

// list lists the resources of a type, page by page.
func (c *Cloud) list(q *call, kind string, grouped bool) (int, any, error) {
	status := q.query.Get("statusOnly") == "true"
	if q.Method != http.MethodGet || kind == "" || grouped == status || status && kind != TypeVM {
		return 0, nil, nil
	}
	shape := map[string]string{TypeVM: "VirtualMachineListResult", TypeNIC: "InterfaceListResult", TypeDisk: "DiskList"}
	page, next := c.page(q, func(r *Resource) bool { return r.Type == kind })
	value := []any{}
	for _, r := range page {
		shown := c.show(q, r, false)
		if status {
			shown = c.status(r)
		}
		value = append(value, shown)
	}
	out := map[string]any{"value": value}
	if next != "" {
		out["nextLink"] = next
	}
	return c.answer(q, http.StatusOK, shape[kind], out)
}

// status is what a listing of states shows of a VM.
func (c *Cloud) status(r *Resource) map[string]any {
	provisioning, _ := c.state(r)
	return map[string]any{
		"id": c.id(r.Type, r.Name), "name": r.Name, "location": c.settings.Location,
		"properties": map[string]any{"provisioningState": provisioning, "instanceView": c.view(r)},
	}
}

// page returns the resources of one page, and the URL of the next.
func (c *Cloud) page(q *call, wanted func(*Resource) bool) (page []*Resource, next string) {
	after, _ := strconv.Atoi(q.query.Get("$skiptoken"))
	for _, r := range c.sorted() {
		if r.serial <= after || c.hidden(r) || !wanted(r) {
			continue
		}
		if len(page) == c.settings.PageSize {
			query := maps.Clone(q.query)
			query.Set("$skiptoken", strconv.Itoa(page[len(page)-1].serial))
			u := url.URL{Scheme: "http", Host: q.Host, Path: q.URL.Path, RawQuery: query.Encode()}
			if q.TLS != nil || q.URL.Scheme == "https" {
				u.Scheme = "https"
			}
			return page, u.String()
		}
		page = append(page, r)
	}
	return page, ""
}

var containing = regexp.MustCompile(`^substringof\('((?:[^']|'')*)', name\)$`)

// search lists the resources of all types whose names contain a text.
func (c *Cloud) search(q *call) (int, any, error) {
	m := containing.FindStringSubmatch(q.query.Get("$filter"))
	if m == nil {
		return 0, nil, bad("InvalidFilterInQueryString", "The filter is invalid.")
	}
	part := strings.ToLower(strings.ReplaceAll(m[1], "''", "'"))
	page, next := c.page(q, func(r *Resource) bool { return strings.Contains(strings.ToLower(r.Name), part) })
	value := []any{}
	for _, r := range page {
		shown := c.show(q, r, false)
		delete(shown, "properties")
		value = append(value, shown)
	}
	out := map[string]any{"value": value}
	if next != "" {
		out["nextLink"] = next
	}
	return http.StatusOK, out, nil
}

// tag changes the tags of a resource.
func (c *Cloud) tag(q *call, kind, name string) (int, any, error) {
	const most = 50
	r := c.find(kind, name)
	change := texts(at(q.body, "properties", "tags"))
	operation := text(q.body["operation"])
	for key := range q.body {
		if key != "operation" && key != "properties" {
			c.violation(q, "an unknown field", []string{key})
		}
	}
	switch {
	case r == nil:
		return 0, nil, notFound(kind + "/" + name)
	case q.Method != http.MethodPatch || !slices.Contains([]string{"Merge", "Delete"}, operation):
		return 0, nil, bad("InvalidTagsOperation", "The operation is not known.")
	}
	tags := maps.Clone(r.Tags)
	for key, value := range change {
		retag(tags, operation, key, value)
	}
	if err := tagsAllowed(tags, most); err != nil {
		return 0, nil, err
	}
	r.Tags = tags
	return http.StatusOK, map[string]any{"properties": map[string]any{"tags": tags}}, nil
}

// retag changes one tag; a key keeps the case in which it was set first.
func retag(tags map[string]string, operation, key, value string) {
	for k := range tags {
		if strings.EqualFold(k, key) {
			key = k
		}
	}
	if old, has := tags[key]; operation == "Merge" {
		tags[key] = value
	} else if has && old == value {
		delete(tags, key)
	}
}

// sizes lists the sizes of VMs.
func (c *Cloud) sizes(q *call) (int, any, error) {
	if q.query.Get("$filter") != "location eq '"+c.settings.Location+"'" {
		return 0, nil, bad("InvalidFilterInQueryString", "The filter is invalid.")
	}
	value := []any{map[string]any{"name": "Aligned", "resourceType": "availabilitySets"}}
	for _, name := range slices.Sorted(maps.Keys(c.settings.Sizes)) {
		s := c.settings.Sizes[name]
		has := map[string]string{
			"vCPUs": strconv.Itoa(s.CPU), "MemoryGB": s.MemoryGB, "CpuArchitectureType": s.Architecture,
		}
		if s.GPU > 0 {
			has["GPUs"] = strconv.Itoa(s.GPU)
		}
		capabilities, restrictions := []any{}, []any{}
		for _, key := range slices.Sorted(maps.Keys(has)) {
			capabilities = append(capabilities, map[string]any{"name": key, "value": has[key]})
		}
		if s.Restricted {
			restrictions = append(restrictions, map[string]any{"type": "Location", "reasonCode": "NotAvailableForSubscription"})
		}
		value = append(value, map[string]any{
			"name": name, "resourceType": "virtualMachines", "locations": []any{c.settings.Location},
			"capabilities": capabilities, "restrictions": restrictions,
		})
	}
	return c.answer(q, http.StatusOK, "ResourceSKUsResult", map[string]any{"value": value})
}

// image shows a version of a marketplace image, or lists the versions.
func (c *Cloud) image(path []string) (int, any, error) {
	const version, versions = 11, 10 // elements of the path, from the location on
	if len(path) != version && len(path) != versions {
		return 0, nil, nil
	}
	urn := path[2] + ":" + path[6] + ":" + path[8] + ":"
	for _, known := range c.settings.Images {
		rest, is := strings.CutPrefix(known, urn)
		switch {
		case !is:
		case len(path) == versions:
			return http.StatusOK, []any{map[string]any{"name": rest}}, nil
		case rest == path[10]:
			properties := map[string]any{}
			if publisher, planned := c.settings.Plans[known]; planned {
				properties["plan"] = map[string]any{"name": path[8], "product": path[6], "publisher": publisher}
			}
			return http.StatusOK, map[string]any{"name": rest, "properties": properties}, nil
		}
	}
	return 0, nil, &failure{http.StatusNotFound, "PlatformImageNotFound", "The platform image is not available."}
}

// terms shows the terms of a plan, or accepts them. Their shape is that of Azure's SDK for marketplace orders.
func (c *Cloud) terms(q *call, path []string) (int, any, error) {
	const offer, product, name, all = 2, 4, 6, 9 // elements of the path, from the type of offer on
	if len(path) != all || path[0] != "virtualmachine" {
		return 0, nil, nil
	}
	plan := path[offer] + ":" + path[product] + ":" + path[name]
	if q.Method == http.MethodPut {
		if at(q.body, "properties", "plan") != path[name] || at(q.body, "properties", "signature") != "signature-1" {
			return 0, nil, bad("BadRequest", "The terms that were shown have to be sent back.")
		}
		c.settings.Accepted = slices.DeleteFunc(slices.Clone(c.settings.Accepted), func(p string) bool { return p == plan })
		if at(q.body, "properties", "accepted") == true {
			c.settings.Accepted = append(c.settings.Accepted, plan)
		}
	}
	return http.StatusOK, map[string]any{"id": q.URL.Path, "name": path[name], "properties": map[string]any{
		"publisher": path[offer], "product": path[product], "plan": path[name], "signature": "signature-1",
		"accepted": slices.Contains(c.settings.Accepted, plan),
	}}, nil
}

// act does something to a VM.
func (c *Cloud) act(q *call, name, action string) (int, any, error) {
	r := c.find(TypeVM, name)
	if r == nil {
		return 0, nil, notFound(TypeVM + "/" + name)
	}
	provisioning, power := c.state(r)
	switch action {
	case "restart", "start":
		switch {
		case provisioning == "Creating" || provisioning == "Deleting":
			return 0, nil, &failure{http.StatusConflict, "AnotherOperationInProgress", "Another operation is in progress."}
		case action == "restart" && power != "running":
			return 0, nil, &failure{http.StatusConflict, "OperationNotAllowed", "The VM is not running."}
		}
		r.Bootings++
		r.Power = ""
		return http.StatusAccepted, nil, nil
	case "retrieveBootDiagnosticsData":
		on, _ := at(r.Properties, "diagnosticsProfile", "bootDiagnostics", "enabled").(bool)
		if !on {
			return 0, nil, &failure{http.StatusConflict, "BootDiagnosticsDisabled", "Boot diagnostics is not enabled."}
		}
		return c.answer(q, http.StatusOK, "RetrieveBootDiagnosticsDataResult", map[string]any{
			"serialConsoleLogBlobUri": fmt.Sprintf("http://%s/console/%s?sig=azuretest", q.Host, r.Name),
		})
	}
	return 0, nil, nil
}

// blob is the text of a console, by a URL with a signature and without a token.
func (c *Cloud) blob(q *call) (int, any, error) {
	r := c.find(TypeVM, q.parts[len(q.parts)-1])
	if r == nil || q.query.Get("sig") != "azuretest" || q.Header.Get("Authorization") != "" {
		return 0, nil, &failure{http.StatusForbidden, "AuthenticationFailed", "The signature is wrong."}
	}
	return http.StatusOK, r.console, nil
}
