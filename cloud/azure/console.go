package azure

import (
	"context"
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opConsole = "read console"
	opReboot  = "reboot VM"
)

// Console returns the end of what the VM of r has written to its serial console. Azure keeps
// that where boot diagnostics are on, and gives the URL of the text, which needs no token.
func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	v, s, err := a.staying(ctx, opConsole, r)
	if err != nil {
		return "", err
	}
	if d := v.Properties.Diagnostics; d == nil || !d.Boot.Enabled {
		return "", cloud.Errorf(cloud.NotFound, opConsole, "NoBootDiagnostics",
			"the VM of machine %q has no boot diagnostics; set properties.diagnosticsProfile.enabled in its class", r.Name)
	}
	var out struct {
		Log string `json:"serialConsoleLogBlobUri"`
	}
	e := a.client.do(ctx, opConsole, request{
		method: http.MethodPost, path: a.client.path(s, vmType, v.Name) + "/retrieveBootDiagnosticsData",
		version: computeVersion, out: &out,
	})
	if e != nil {
		return "", driverkit.Restrict(e, cloud.NotFound)
	}
	if out.Log == "" {
		return "", nil
	}
	status, body, e := a.client.raw(ctx, opConsole, http.MethodGet, out.Log, "")
	switch {
	case e != nil:
		return "", driverkit.Restrict(e)
	case status == http.StatusNotFound: // not written yet
		return "", nil
	case status != http.StatusOK:
		return "", driverkit.Restrict(table.Error(opConsole, driverkit.Answer{Status: status}))
	}
	return cloud.ConsoleTail(string(body)), nil
}

// staying returns the VM of r that is not being deleted.
func (a *account) staying(ctx context.Context, op string, r cloud.Ref) (virtualMachine, *spec, error) {
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return virtualMachine{}, nil, err
	}
	v, err := a.own(ctx, op, s, r)
	if err != nil {
		return v, nil, driverkit.Restrict(err, cloud.NotFound)
	}
	if state, _ := v.state(); state == cloud.StateDeleting {
		return v, nil, cloud.Errorf(cloud.NotFound, op, "NotFound", "the VM of machine %q is being deleted", r.Name)
	}
	return v, s, nil
}

// Reboot restarts the VM of r, or starts it if it does not run.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	v, s, err := a.staying(ctx, opReboot, r)
	if err != nil {
		return err
	}
	action := "/restart"
	if state, _ := v.state(); state == cloud.StateStopped {
		action = "/start"
	}
	e := a.client.do(ctx, opReboot, request{
		method: http.MethodPost, path: a.client.path(s, vmType, v.Name) + action, version: computeVersion,
	})
	if e == nil {
		return nil
	}
	if e.Code == cloud.Exhausted {
		return s.refused(cloud.CreateRequest{Ref: r}, e)
	}
	return driverkit.Busy(driverkit.Restrict(e, cloud.NotFound, cloud.Invalid), codeConflict, codeAnotherGoes,
		codeNotAllowed, codePreempted)
}
