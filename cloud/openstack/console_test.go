package openstack

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestConsoleAnswers: what Nova says about a console is told apart by what helps.
func TestConsoleAnswers(t *testing.T) {
	t.Parallel()
	const fault = `{"%": {"code": 0, "message": "said"}}`
	for name, c := range map[string]struct {
		reason string
		status int
		body   string
		text   string
		code   cloud.Code
		why    string
	}{
		"Text": {"The end is read, in whole lines.", 200, `{"output": "a\r\nb"}`, "a\nb\n", 0, ""},
		"None": {"A guest that has written nothing yet is no failure.", 200, `{"output": ""}`, "", 0, ""},
		"NoConsole": {
			"The hypervisor has no console of it, or the server is gone: nothing is to be had.",
			404, strings.Replace(fault, "%", "itemNotFound", 1), "", cloud.NotFound, "",
		},
		"NotReady": {
			"A server on its way to a host has a console soon.",
			409, strings.Replace(fault, "%", "conflictingRequest", 1), "", cloud.Unavailable, cloud.ReasonVMBusy,
		},
		"NotImplemented": {
			"A hypervisor that cannot do it never will: nobody has to ask again.",
			501, strings.Replace(fault, "%", "notImplemented", 1), "", cloud.Invalid, cloud.ReasonConsoleUnsupported,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t, func(r *http.Request, body string) (int, string) {
				if r.Method == http.MethodGet {
					return 200, `{"server": {"id": "11111111-1111-4111-8111-111111111111", "name": "m", "status": "ACTIVE",
						"metadata": {"kubernetes.io-cluster-c": "1", "kubernetes.io-role-node": "1"}}}`
				}
				if body != `{"os-getConsoleOutput":{"length":2000}}` {
					t.Errorf("asked for %s", body)
				}
				return c.status, c.body
			})
			class, _ := NewDriver(Options{}).Parse(cloud.ClassInput{Spec: []byte(`{"spec": {"region": "r",
				"tags": {"kubernetes.io-cluster-c": "1", "kubernetes.io-role-node": "1"}}}`)})
			text, err := cloud.Console(t.Context(), a, cloud.Ref{
				Name: "m", Class: class, ProviderID: "openstack:///r/11111111-1111-4111-8111-111111111111",
			})
			e, failed := errors.AsType[*cloud.Error](err)
			if text != c.text || failed != (c.code != 0) || failed && (e.Code != c.code || c.why != "" && e.Reason != c.why) {
				t.Errorf("got %q, %+v, want %q, %v %s\nbecause: %s", text, err, c.text, c.code, c.why, c.reason)
			}
		})
	}
}
