package logging

import (
	"context"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// change is what of a merge patch is logged: a field is there if it changes.
type change struct {
	Spec struct {
		ProviderID    *string `json:"providerID"`
		Replicas      *int32  `json:"replicas"`
		Unschedulable *bool   `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		CurrentStatus struct {
			Phase *string `json:"phase"`
		} `json:"currentStatus"`
		LastOperation struct {
			Type        string `json:"type"`
			State       string `json:"state"`
			Description string `json:"description"`
			ErrorCode   string `json:"errorCode"`
		} `json:"lastOperation"`
	} `json:"status"`
}

// changed logs what a merge patch has changed. err is why it was refused, or nil.
func changed(ctx context.Context, o client.Object, data []byte, err error) {
	l := log.FromContext(ctx)
	if !l.Enabled() {
		return
	}
	var c change
	if json.Unmarshal(data, &c) != nil {
		return // of another form: no patch of a controller
	}
	op := c.Status.LastOperation
	silent := true
	for _, e := range []struct {
		message string
		is      bool
		values  []any
	}{
		{"Recorded VM", c.Spec.ProviderID != nil, []any{"providerID", c.Spec.ProviderID}},
		{"Scaled", c.Spec.Replicas != nil, []any{"replicas", c.Spec.Replicas}},
		{"Changed scheduling of node", c.Spec.Unschedulable != nil, []any{"unschedulable", c.Spec.Unschedulable}},
		{"Changed phase", c.Status.CurrentStatus.Phase != nil, []any{
			"phase", c.Status.CurrentStatus.Phase, "operation", op.Type, "state", op.State, "cause", op.Description,
		}},
	} {
		if e.is {
			silent = false
			done(ctx, e.message, err, append(about(o), e.values...)...)
		}
	}
	if silent {
		report(ctx, o, c, err)
	}
}

// report logs a write that changes nothing but what is said of an object, e.g. for what
// it waits.
func report(ctx context.Context, o client.Object, c change, err error) {
	l := log.FromContext(ctx).V(verbosityRetries)
	if !l.Enabled() {
		return
	}
	if err != nil {
		done(ctx, "Patched object", err, about(o)...)
		return
	}
	values := about(o)
	if op := c.Status.LastOperation; op.Description != "" || op.State != "" {
		values = append(values, "operation", op.Type, "state", op.State, "errorCode", op.ErrorCode, "cause", op.Description)
	}
	l.Info("Patched object", values...)
}
