package hetznertest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// schema is what Hetzner publishes about the bodies of requests and answers. schema.json is an
// extract of it, which TestSchemaIsCurrent compares with its source.
type schema struct {
	Source string `json:"source"`
	// Types are the fields of each type. The type of a field is as in the source: a star begins
	// what may be null, and ",omitempty" ends what a request may leave out.
	Types map[string]map[string]string `json:"types"`
}

//go:embed schema.json
var schemaText []byte

// published is the schema. It is read once; what is in it is tested.
var published = sync.OnceValue(func() schema {
	var s schema
	if err := json.Unmarshal(schemaText, &s); err != nil {
		panic(err)
	}
	return s
})

// route is a call that the Cloud answers.
type route struct {
	method, path    string // in the path, {id} is a number
	query           []string
	request, answer string // types; no request is none
}

// paging are the parameters of all listings.
func paging(more ...string) []string { return append([]string{"page", "per_page", "sort"}, more...) }

// routes are those of Hetzner's documentation that the driver uses, with their parameters.
func routes() []route {
	return []route{
		{http.MethodGet, "/servers", paging("name", "label_selector", "status"), "", "ServerListResponse"},
		{http.MethodPost, "/servers", nil, "ServerCreateRequest", "ServerCreateResponse"},
		{http.MethodGet, "/servers/{id}", nil, "", "ServerGetResponse"},
		{http.MethodPut, "/servers/{id}", nil, "ServerUpdateRequest", "ServerUpdateResponse"},
		{http.MethodDelete, "/servers/{id}", nil, "", "ServerDeleteResponse"},
		{http.MethodPost, "/servers/{id}/actions/poweron", nil, "", "ServerActionPoweronResponse"},
		{http.MethodPost, "/servers/{id}/actions/reset", nil, "", "ServerActionResetResponse"},
		{
			http.MethodPost, "/servers/{id}/actions/attach_to_network", nil, "ServerActionAttachToNetworkRequest",
			"ServerActionAttachToNetworkResponse",
		},
		{http.MethodGet, "/server_types", paging("name"), "", "ServerTypeListResponse"},
		{
			http.MethodGet, "/images", paging("name", "label_selector", "type", "status", "bound_to", "include_deprecated",
				"architecture"), "", "ImageListResponse",
		},
		{http.MethodGet, "/ssh_keys", paging("name", "label_selector", "fingerprint"), "", "SSHKeyListResponse"},
		{http.MethodGet, "/networks", paging("name", "label_selector"), "", "NetworkListResponse"},
		{http.MethodGet, "/firewalls", paging("name", "label_selector"), "", "FirewallListResponse"},
		{http.MethodGet, "/placement_groups", paging("name", "label_selector", "type"), "", "PlacementGroupListResponse"},
		{http.MethodGet, "/floating_ips", paging("name", "label_selector"), "", "FloatingIPListResponse"},
		{http.MethodPost, "/floating_ips", nil, "FloatingIPCreateRequest", "FloatingIPCreateResponse"},
		{http.MethodDelete, "/floating_ips/{id}", nil, "", ""},
		{http.MethodPost, "/floating_ips/{id}/actions/unassign", nil, "", "FloatingIPActionUnassignResponse"},
		{
			http.MethodPost, "/floating_ips/{id}/actions/assign", nil, "FloatingIPActionAssignRequest",
			"FloatingIPActionAssignResponse",
		},
	}
}

// checkQuery returns what is wrong with the parameters of a request.
func (r route) checkQuery(query url.Values) error {
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(r.query, key) {
			return fmt.Errorf("%s %s takes no parameter %s", r.method, r.path, key)
		}
	}
	return nil
}

// checkRequest returns what is wrong with the body of a request.
func (r route) checkRequest(body []byte) error {
	if r.request == "" || len(body) == 0 {
		if len(body) > 0 || r.request != "" {
			return fmt.Errorf("%s %s has a body of %d bytes and has to have a %q", r.method, r.path, len(body), r.request)
		}
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return published().check("body", r.request, value, true)
}

// checkAnswer returns what an answer has that Hetzner's does not.
func (r route) checkAnswer(body []byte) error {
	if r.answer == "" {
		return nil
	}
	var value map[string]any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	if strings.HasSuffix(r.answer, "ListResponse") {
		if err := published().check("meta", "Meta", value["meta"], false); err != nil {
			return err
		}
		delete(value, "meta")
	}
	return published().check("answer", r.answer, value, false)
}

// check returns what is wrong with a value that has to be of a type. A request also has to have
// all that is required.
func (s schema) check(at, of string, value any, request bool) error {
	of, _ = strings.CutSuffix(of, ",omitempty")
	if value == nil && !request {
		return nil // Hetzner answers null for more than its library says, e.g. an address that a server lacks
	}
	if inner, nullable := strings.CutPrefix(of, "*"); nullable {
		if value == nil {
			return nil
		}
		return s.check(at, inner, value, request)
	}
	if element, isList := strings.CutPrefix(of, "[]"); isList {
		return s.checkList(at, element, value, request)
	}
	if fields, isStruct := s.Types[of]; isStruct {
		return s.checkFields(at, fields, value, request)
	}
	if !plain(of, value) {
		return fmt.Errorf("%s is %v and has to be of type %s", at, value, of)
	}
	return nil
}

func (s schema) checkList(at, element string, value any, request bool) error {
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%s is %v and has to be a list", at, value)
	}
	for i, item := range list {
		if err := s.check(fmt.Sprintf("%s[%d]", at, i), element, item, request); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) checkFields(at string, fields map[string]string, value any, request bool) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %v and has to be an object", at, value)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		of, known := fields[key]
		if !known {
			return fmt.Errorf("%s.%s is no field of the API", at, key)
		}
		if err := s.check(at+"."+key, of, object[key], request); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		_, has := object[key]
		optional := strings.HasPrefix(fields[key], "*") || strings.HasSuffix(fields[key], ",omitempty")
		if request && !has && !optional {
			return fmt.Errorf("%s.%s is required", at, key)
		}
	}
	return nil
}

// plain reports whether a value is of a type that has no fields.
func plain(of string, value any) bool {
	switch v := value.(type) {
	case string:
		_, err := time.Parse(time.RFC3339, v)
		return of == "string" || of == "IDOrName" || of == "time.Time" && err == nil
	case bool:
		return of == "bool"
	case float64:
		return number(of, v)
	case map[string]any:
		return of == "map[string]string" && !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(x any) bool {
			_, text := x.(string)
			return !text
		})
	}
	return false
}

// number reports whether a number is of a type.
func number(of string, v float64) bool {
	if strings.HasPrefix(of, "float") {
		return true
	}
	integer := strings.HasPrefix(of, "int") || strings.HasPrefix(of, "uint") || of == "IDOrName"
	return integer && v == float64(int64(v))
}
