package mcmconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// source is user data as its author wrote it.
type source struct {
	data   []byte
	format bootstrapv1.Format
	limit  int // bytes that the cloud accepts; 0 is not known
}

// problem is user data that somebody has to correct.
type problem struct{ reason, message string }

// Error names the field and the remedy.
func (p *problem) Error() string { return p.message }

func wrong(reason, format string, args ...any) error {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// source returns the user data that the spec names. The error is a *problem, or
// says that reading failed.
func (c *Controller) source(ctx context.Context, config *bootstrapv1.MCMConfig) (source, error) {
	var out source
	var err error
	classRef, secretRef := config.Spec.MachineClassRef, config.Spec.UserDataSecretRef
	switch {
	case (classRef == nil) == (secretRef == nil):
		return out, wrong(machinev1.ReasonInvalidSpec,
			"spec.machineClassRef, spec.userDataSecretRef: set exactly one of them")
	case classRef != nil:
		out, err = c.fromClass(ctx, config.Namespace, classRef.Name)
	default:
		out, err = c.fromSecret(ctx, config.Namespace, secretRef.Name)
	}
	if err != nil {
		return out, err
	}
	out.format, err = formatOf(out.data, config.Spec.Format)
	return out, err
}

// fromSecret reads the Secret that the spec names itself.
func (c *Controller) fromSecret(ctx context.Context, namespace, name string) (source, error) {
	secret, err := c.secretAt(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	switch {
	case err != nil:
		return source{}, err
	case secret == nil:
		return source{}, wrong(machinev1.ReasonSecretNotFound,
			"spec.userDataSecretRef.name: there is no Secret %q in namespace %q; create it or name another one", name, namespace)
	}
	data, err := bootdata.FromSecret(secret.Data)
	if err != nil {
		return source{}, wrong(machinev1.ReasonInvalidUserData, "spec.userDataSecretRef.name: Secret %q %s", name, err)
	}
	return source{data: data}, capi.EnsureMoveLabel(ctx, c.Client, secret)
}

// fromClass reads the Secrets of a MachineClass. Those of other namespaces count
// only if they allow it: else whoever may write classes could read all Secrets
// through this controller.
func (c *Controller) fromClass(ctx context.Context, namespace, name string) (source, error) {
	resolved, err := c.Classes.ResolveForClusterAPI(ctx, c.Client, namespace, name)
	if err != nil {
		return source{}, err
	}
	if err := unusable(resolved); err != nil {
		return source{}, wrong(reasonOf(err), "spec.machineClassRef.name: %s", err)
	}
	data, err := resolved.UserData()
	if err != nil {
		return source{}, wrong(reasonOf(err), "spec.machineClassRef.name: %s", err)
	}
	return source{data: data, limit: resolved.Driver.Traits().UserDataMax}, capi.EnsureMoveLabel(ctx, c.Client,
		resolved.Object)
}

// unusable says why a class cannot give boot data: it or its cloud is not known,
// or a Secret that it names is not there. The rest is for whoever makes the VM.
func unusable(r class.Resolved) error {
	switch {
	case r.Object == nil || r.Driver == nil:
		return r.Err(cloud.BlocksAll)
	case !r.SecretsFound:
		return r.Err(cloud.BlocksCreate)
	}
	return nil
}

// formatOf returns the format of data. What the author says must be true.
func formatOf(data []byte, said bootstrapv1.Format) (bootstrapv1.Format, error) {
	is := bootstrapv1.FormatCloudConfig // or whatever else cloud-init reads
	if isIgnition(data) {
		is = bootstrapv1.FormatIgnition
	}
	switch said {
	case "", is:
		return is, nil
	case bootstrapv1.FormatIgnition:
		return "", wrong(machinev1.ReasonInvalidUserData,
			"spec.format: is %s, but the user data is no JSON object with ignition.version; correct one of them", said)
	default:
		return "", wrong(machinev1.ReasonInvalidUserData,
			"spec.format: is %s, but the user data is an ignition config; correct one of them", said)
	}
}

// isIgnition reports whether data is an ignition config.
// Source: the ignition specifications: ignition.version is required in all.
func isIgnition(data []byte) bool {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	return json.Unmarshal(data, &config) == nil && config.Ignition.Version != ""
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason != "" {
		return e.Reason
	}
	return machinev1.ReasonInvalidUserData
}
