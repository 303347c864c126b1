package gcptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// refusal is an error of the API.
type refusal struct {
	status          int
	reason, message string
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, reason, format string, args ...any) *refusal {
	return &refusal{status, reason, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, "invalid", format, args...)
}

func notFound(what, name string) *refusal {
	return refuse(http.StatusNotFound, "notFound", "The resource '%s/%s' was not found", what, name)
}

// call is a request that passed the gate.
type call struct {
	*http.Request

	values map[string]string // in its path
	body   map[string]any
}

// at is the place of the instance or disk that is meant.
func (r call) at(kind string) string { return r.values["zone"] + "/" + r.values[kind] }

// apiPath begins the paths of the API.
const apiPath = "/compute/v1/"

// ServeHTTP answers one request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if !strings.HasPrefix(r.URL.Path, apiPath) {
		c.logIn(w, r, body)
		return
	}
	out, refused := c.answer(r, body)
	if refused != nil {
		answer(w, refused.status, map[string]any{"error": map[string]any{
			"code": refused.status, "message": refused.message,
			"errors": []any{map[string]any{"domain": "global", "reason": refused.reason, "message": refused.message}},
		}})
		return
	}
	answer(w, http.StatusOK, out)
}

func answer(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

// answer returns what the API answers. The lock is held.
func (c *Cloud) answer(r *http.Request, body []byte) (map[string]any, *refusal) {
	if r.Header.Get("Authorization") != "Bearer "+c.token() || c.revoked {
		return nil, refuse(http.StatusUnauthorized, "authError", "Invalid Credentials")
	}
	name, values := c.schema.match(r.Method, strings.TrimPrefix(r.URL.Path, apiPath))
	if name == "" {
		c.options.Report("unknown method: "+r.Method+" "+r.URL.Path, body)
		return nil, notFound("method", r.URL.Path)
	}
	q := call{Request: r, values: values}
	if err := c.gate(name, &q, body); err != nil {
		c.options.Report(name+": "+err.Error(), body)
		return nil, invalid("Invalid JSON payload received: %v", err)
	}
	response := field{Ref: c.schema.Methods[name].Response}
	wanted, refused := c.wanted(name, q, response)
	if refused != nil {
		return nil, refused
	}
	out, refused := c.handle(name, q)
	if refused != nil {
		return nil, refused
	}
	plain := roundTrip(out)
	checks := checker{schema: c.schema}
	if err := checks.check("answer", response, plain); err != nil {
		c.options.Report("the double answers "+name+" with what the API does not know: "+err.Error(), nil)
	}
	return object(project(plain, wanted)), nil
}

// wanted returns what a request wants of the response, all of it without the parameter fields. One
// that the response's schema does not have is refused and reported.
func (c *Cloud) wanted(name string, q call, response field) (selection, *refusal) {
	text := q.URL.Query().Get("fields")
	if text == "" {
		return nil, nil
	}
	all, err := parseFields(text)
	if err == nil {
		err = c.schema.checkFields(response, all)
	}
	if err != nil {
		c.options.Report(name+": "+err.Error(), nil)
		return nil, refuse(http.StatusBadRequest, "invalidParameter", "%v", err)
	}
	return all, nil
}

// gate lets requests pass that the API knows.
func (c *Cloud) gate(name string, q *call, body []byte) error {
	if err := c.schema.checkQuery(name, q.URL.Query()); err != nil {
		return err
	}
	want := c.schema.Methods[name].Request
	switch {
	case want == "" && len(body) > 0:
		return fmt.Errorf("the method takes no body")
	case want == "":
		return nil
	}
	if err := json.Unmarshal(body, &q.body); err != nil {
		return err
	}
	return checker{schema: c.schema, method: name, request: true}.check("resource", field{Ref: want}, q.body)
}

// roundTrip returns v as its reader sees it.
func roundTrip(v map[string]any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	return out
}

// handle calls what a method does.
func (c *Cloud) handle(name string, q call) (map[string]any, *refusal) {
	if q.values["project"] == OtherProject {
		if c.other == nil {
			c.other = New(c.options)
		}
		return c.other.handleIn(name, q)
	}
	if q.values["project"] != Project {
		return nil, notFound("projects", q.values["project"])
	}
	return c.handleIn(name, q)
}

// handleIn calls what a method does in the project of c.
func (c *Cloud) handleIn(name string, q call) (map[string]any, *refusal) {
	if zone, has := q.values["zone"]; has && !zones()[zone] {
		return nil, invalid("Invalid value for field 'zone': '%s'. Unknown zone.", zone)
	}
	handlers := map[string]func(call) (map[string]any, *refusal){
		"instances.insert": c.insert, "instances.get": c.get, "instances.delete": c.delete,
		"instances.aggregatedList": c.listInstances, "instances.reset": c.restart, "instances.start": c.restart,
		"instances.resume": c.restart, "instances.setLabels": c.setLabels,
		"instances.setDeletionProtection": c.protect, "instances.getSerialPortOutput": c.serialPort,
		"disks.list": c.listDisks, "disks.aggregatedList": c.listAllDisks, "disks.delete": c.deleteDisk,
		"disks.get": c.getDisk, "disks.setLabels": c.setDiskLabels,
		"machineTypes.get": machineType, "zoneOperations.get": c.operation,
		"instanceGroups.listInstances": c.listMembers, "instanceGroups.addInstances": c.addMembers,
		"instanceGroups.removeInstances": c.removeMembers,
	}
	return handlers[name](q)
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func zones() map[string]bool {
	return map[string]bool{Region + "-b": true, Region + "-c": true, Region + "-d": true}
}
