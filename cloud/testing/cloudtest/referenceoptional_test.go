package cloudtest_test

import (
	"context"
	"net/http"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	ref := r
	if a.bug("rebootsAnyOwner") {
		ref.OwnerID = ""
	}
	found, err := a.vms(ctx, ref)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return cloud.Errorf(cloud.NotFound, "find VM", "NotFound", "%d VMs of %s", len(found), r.Name)
	}
	how := "/start"
	switch {
	case a.bug("resetsOnly"):
		how = "/reset"
	case a.bug("rebuilds"):
		how = "/rebuild"
	}
	return a.call(ctx, "reboot", http.MethodPost, r.Class, "/vm/"+found[0].ID+how, nil, &found[0])
}

func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	ref := r
	if a.bug("readsAnyConsole") {
		ref.OwnerID = ""
	}
	found, err := a.vms(ctx, ref)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", cloud.Errorf(cloud.NotFound, "find VM", "NotFound", "%d VMs of %s", len(found), r.Name)
	}
	var text string
	if err := a.call(ctx, "console", http.MethodGet, r.Class, "/vm/"+found[0].ID+"/console", nil, &text); err != nil {
		return "", err
	}
	switch {
	case a.bug("readsRaw"):
		return text, nil
	case a.bug("readsBeginning"):
		text = text[:min(len(text), cloud.ConsoleMax)]
	}
	return cloud.ConsoleTail(text), nil
}

// Scope is the project that a session is of.
func (a *account) Scope(ctx context.Context, c cloud.Class) (string, error) {
	switch {
	case a.bug("namesNoScope"):
		return "", nil
	case a.bug("namesOneScope"):
		return "project", nil
	}
	session, err := a.login(ctx, c.Spec.(spec).URL, "")
	project, _, _ := strings.Cut(session, "-session")
	return "project " + project + ", region " + c.Region, err
}
