package inframachine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// dataKey is the entry of a bootstrap Secret that holds the boot data, as
// Cluster API's contract for bootstrap providers says.
const dataKey = "value"

// userData returns the boot payload: what the bootstrap provider wrote, packed if
// it is too large for the cloud. Whether it is cloud-config or ignition shows in
// the data itself.
func (c *Controller) userData(ctx context.Context, f *facts, r class.Resolved) ([]byte, error) {
	if f.machine.Spec.Bootstrap.DataSecretName == nil || *f.machine.Spec.Bootstrap.DataSecretName == "" {
		return nil, invalidBootstrapData(infrav1.ReasonWaitingForBootstrap, "spec.bootstrap.dataSecretName",
			"is empty; the bootstrap provider fills it in")
	}
	name := *f.machine.Spec.Bootstrap.DataSecretName
	secret := &corev1.Secret{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: f.machine.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, invalidBootstrapData(infrav1.ReasonBootstrapNotFound, "spec.bootstrap.dataSecretName",
			fmt.Sprintf("there is no Secret %q; create it, or delete the Machine", name))
	}
	if err != nil {
		return nil, fmt.Errorf("read bootstrap Secret %s: %w", name, err)
	}
	data := secret.Data[dataKey]
	if len(data) == 0 {
		return nil, invalidBootstrapData(infrav1.ReasonInvalidBootstrapData, "spec.bootstrap.dataSecretName",
			fmt.Sprintf("Secret %q has no entry %q; put the boot data there", name, dataKey))
	}
	packed, err := bootstrap.Pack(data, r.Driver.Traits().UserDataMax)
	if err != nil {
		return nil, invalidBootstrapData(infrav1.ReasonInvalidBootstrapData, fmt.Sprintf("Secret %s[%s]", name, dataKey), err.Error())
	}
	return packed, nil
}

// invalidBootstrapData is an error about the Machine's boot data.
func invalidBootstrapData(reason, field, message string) error {
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: reason,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + ": " + message),
	}
}
