package mcmconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

// Entries of a data Secret, as Cluster API's contract has them.
const (
	keyValue  = "value"
	keyFormat = "format"
)

// tokenTries is how many token IDs are tried in one reconcile. An ID is only used up if
// a reconcile ended between token and Secret, and its token has expired and was not
// deleted.
const tokenTries = 5

// create creates the data Secret.
func (c *Controller) create(ctx context.Context, s *scope) error {
	made, ok, err := c.payload(ctx, s, 1)
	if err != nil || !ok {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.config.Namespace, Name: s.config.Name},
		Type:       clusterv1.ClusterSecretType,
	}
	s.own(secret)
	made.into(secret, s.ownerID())
	if err := recordSource(secret, s.config); err != nil {
		return err
	}
	err = c.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		s.wait = staleRetry // it is not in the cache yet
		return nil
	}
	if err != nil {
		return fmt.Errorf("create data Secret %s: %w", secret.Name, err)
	}
	s.created = true
	s.secret = secret
	if made.attempt > 0 {
		s.wait = tokenLifetime / 2
	}
	return nil
}

// payload is complete bootstrap data.
type payload struct {
	data    []byte
	format  bootstrapv1.Format
	attempt int // number of the token in it; 0 if there is none
}

// payload completes the user data, with the first usable token from that number on. ok is
// false if it has to wait, or if the user has to correct something.
func (c *Controller) payload(ctx context.Context, s *scope, attempt int) (made payload, ok bool, err error) {
	from, err := c.source(ctx, s.config)
	if p, bad := errors.AsType[*problem](err); bad {
		s.refuse(p.reason, "%s", p.message)
		return payload{}, false, nil
	}
	if err != nil {
		return payload{}, false, err
	}
	values := bootstrap.Values{MachineName: s.nodeName()}
	made.format = from.format
	if bootstrap.NeedsToken(from.data) {
		values.Token, made.attempt, err = c.ensureToken(ctx, s, attempt)
		if errors.Is(err, clustercache.ErrClusterNotConnected) {
			c.waitForConnection(ctx, s)
			return payload{}, false, nil // the connection wakes this object
		}
		if apierrors.IsForbidden(err) {
			s.forbidden()
			return payload{}, false, nil
		}
		if err != nil {
			return payload{}, false, err
		}
	}
	if made.data, err = finish(from, values); err != nil {
		s.refuse(machinev1.ReasonInvalidUserData, "%s: %s", sourceField(s.config), err)
		return payload{}, false, nil
	}
	return made, true, nil
}

// waitForConnection records that the workload cluster cannot be reached, and why if it is for its
// kubeconfig.
func (c *Controller) waitForConnection(ctx context.Context, s *scope) {
	const text = "there is no connection to the workload cluster, where a bootstrap token has to be made"
	if refused := kubeconfig.Refused(ctx, c.Client, s.clusterKey()); refused != nil {
		s.waitFor(bootstrapv1.ReasonWaitingForConnection, text+": the kubeconfig is not used: %v", refused)
		return
	}
	s.waitFor(bootstrapv1.ReasonWaitingForConnection, text)
}

// forbidden records that the workload cluster forbids access to bootstrap tokens.
func (s *scope) forbidden() {
	s.refuse(bootstrapv1.ReasonTokenForbidden,
		"the user of the kubeconfig of Cluster %q may not get, create, patch or delete Secrets in the namespace "+
			"kube-system of the workload cluster, as the bootstrap token needs; give it the permissions of "+
			"config/rbac/workload_role.yaml", s.machine.Spec.ClusterName)
	s.wait = forbiddenRetry
}

// finish replaces the placeholders and compresses the data if it is too long.
func finish(from source, values bootstrap.Values) ([]byte, error) {
	filled, err := bootstrap.Fill(from.data, values)
	if err != nil {
		return nil, err
	}
	return bootstrap.Pack(filled, from.limit)
}

// ensureToken returns a valid bootstrap token and its number, the first from attempt on.
func (c *Controller) ensureToken(ctx context.Context, s *scope, attempt int) (string, int, error) {
	workload, err := c.Clusters.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return "", 0, fmt.Errorf("connect to the workload cluster: %w", err)
	}
	for n := attempt; n < attempt+tokenTries; n++ {
		value, spent, err := token.Ensure(ctx, token.Deps{Client: workload, Live: workload}, c.request(s, n))
		if err != nil {
			return "", 0, err
		}
		if !spent {
			return value, n, nil
		}
	}
	return "", 0, fmt.Errorf("the ids of bootstrap tokens %d to %d are spent", attempt, attempt+tokenTries-1)
}

func (c *Controller) request(s *scope, attempt int) token.Request {
	return token.Request{
		MachineName: s.nodeName(), OwnerID: s.ownerID(), Attempt: attempt, Now: s.now,
		Expiration: s.now.Add(tokenLifetime), ExtraGroups: c.TokenExtraGroups, Rand: c.Rand,
	}
}

// into writes the data into its Secret.
func (p payload) into(secret *corev1.Secret, ownerID string) {
	secret.Data = map[string][]byte{keyValue: p.data, keyFormat: []byte(p.format)}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	delete(secret.Annotations, machinev1.CreateAttemptAnnotation)
	if p.attempt > 0 {
		secret.Annotations[machinev1.OwnerIDAnnotation] = ownerID
		secret.Annotations[machinev1.CreateAttemptAnnotation] = strconv.Itoa(p.attempt)
	}
}

// recordSource records the spec that the data is created from. It stays when the spec
// changes for an in-place update, which creates no other data.
func recordSource(secret *corev1.Secret, config *bootstrapv1.MCMConfig) error {
	spec, err := json.Marshal(config.Spec)
	if err != nil {
		return fmt.Errorf("note what the data of MCMConfig %s is made from: %w", config.Name, err)
	}
	secret.Annotations[bootstrapv1.MadeFromAnnotation] = string(spec)
	return nil
}

// own sets the owner of a data Secret. clusterctl moves the Secret, and the garbage
// collector deletes it, by that reference.
func (s *scope) own(secret *corev1.Secret) {
	if s.machine != nil {
		if secret.Labels == nil {
			secret.Labels = map[string]string{}
		}
		secret.Labels[clusterv1.ClusterNameLabel] = s.machine.Spec.ClusterName
	}
	ref := *metav1.NewControllerRef(s.config, bootstrapv1.GroupVersion.WithKind(kind))
	for i, r := range secret.OwnerReferences {
		if r.Kind == kind && r.Name == s.config.Name {
			secret.OwnerReferences[i] = ref
			return
		}
	}
	secret.OwnerReferences = append(secret.OwnerReferences, ref)
}

func sourceField(config *bootstrapv1.MCMConfig) string {
	if config.Spec.MachineClassRef != nil {
		return "spec.machineClassRef.name"
	}
	return "spec.userDataSecretRef.name"
}

// patchSecret applies change to the data Secret, and writes it if it has changed.
func (c *Controller) patchSecret(ctx context.Context, s *scope, change func(*corev1.Secret)) error {
	changed := s.secret.DeepCopy()
	change(changed)
	if sameSecret(s.secret, changed) {
		return nil
	}
	err := patch.Object(ctx, c.Client, s.secret, changed)
	if err != nil {
		return fmt.Errorf("write data Secret %s: %w", changed.Name, err)
	}
	s.secret = changed
	return nil
}
