package manager

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretsOf plays an API server with Secrets, or a cache of their metadata.
type secretsOf struct {
	client.Client // nil: nothing else is asked for

	stored map[string]*corev1.Secret // by name
	reads  int
}

func (s *secretsOf) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	found := s.stored[key.Name]
	if found == nil || found.Namespace != key.Namespace {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	switch into := into.(type) {
	case *corev1.Secret:
		found.DeepCopyInto(into)
	case *metav1.PartialObjectMetadata:
		into.ObjectMeta = *found.ObjectMeta.DeepCopy()
	}
	return nil
}

// secretAt is Secret b/s in a version.
func secretAt(version, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "s", UID: "1", ResourceVersion: version},
		Data:       map[string][]byte{"k": []byte(value)},
	}
}

// TestSecretIsReadAfterEachChange: a Secret is asked for once for each version that the
// cache shows, and what is returned is never older than that version.
func TestSecretIsReadAfterEachChange(t *testing.T) {
	t.Parallel()
	server, cache := &secretsOf{stored: map[string]*corev1.Secret{}}, &secretsOf{stored: map[string]*corev1.Secret{}}
	c := &secretClient{Client: server, metadata: cache, kept: lru.New(keptSecrets)}
	first, second := secretAt("1", "first"), secretAt("2", "second")
	steps := []struct {
		reason        string
		stored, shown *corev1.Secret
		want          string // empty: not found
		reads         int    // of the API server so far
	}{
		{"A Secret that the cache does not show does not exist.", first, nil, "", 0},
		{"It is read when it is first asked for.", first, first, "first", 1},
		{"And kept.", first, first, "first", 1},
		{"The cache is behind, and shows what has been read.", second, first, "first", 1},
		{"A change has it read again.", second, second, "second", 2},
		{"And kept.", second, second, "second", 2},
		{"One that is gone is not kept.", nil, nil, "", 2},
		{"It is back.", second, second, "second", 3},
		{"The cache shows one that is gone.", nil, first, "", 4},
		{"The cache is behind when it is read.", second, first, "second", 5},
		{"It catches up with what was read.", second, second, "second", 5},
	}
	for _, s := range steps {
		server.stored["s"], cache.stored["s"] = s.stored, s.shown
		got := &corev1.Secret{}
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "s"}, got)
		if (s.want == "") != apierrors.IsNotFound(err) || string(got.Data["k"]) != s.want || server.reads != s.reads {
			t.Errorf("%s got %q, %v, after %d reads", s.reason, got.Data["k"], err, server.reads)
		}
		if got.Data != nil {
			got.Data["k"] = []byte("changed by the caller") // which no other caller sees
		}
	}
}

// Create stores a Secret in version 7.
func (s *secretsOf) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	o.SetResourceVersion("7")
	s.stored[o.GetName()] = o.(*corev1.Secret).DeepCopy()
	return nil
}

// Patch stores a Secret in version 8.
func (s *secretsOf) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	o.SetResourceVersion("8")
	s.stored[o.GetName()] = o.(*corev1.Secret).DeepCopy()
	return nil
}

// TestOwnSecretsAreNotReadAgain: the answer to a write has what was written.
func TestOwnSecretsAreNotReadAgain(t *testing.T) {
	t.Parallel()
	stored := &secretsOf{stored: map[string]*corev1.Secret{}} // the cache is never behind
	server := *stored
	c := &secretClient{Client: &server, metadata: stored, kept: lru.New(keptSecrets)}
	secret := secretAt("", "created")
	for what, write := range map[string]func() error{
		"created": func() error { return c.Create(t.Context(), secret) },
		"patched": func() error { return c.Patch(t.Context(), secret, client.MergeFrom(secret)) },
	} {
		secret.Data["k"] = []byte(what)
		if err := write(); err != nil {
			t.Fatal(err)
		}
		got := &corev1.Secret{}
		err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), got)
		if err != nil || string(got.Data["k"]) != what || server.reads > 0 {
			t.Errorf("%s: %q, %v, after %d reads", what, got.Data["k"], err, server.reads)
		}
	}
}

// TestSecretMetadataIsReadFromTheCache: whoever needs no content causes no request.
func TestSecretMetadataIsReadFromTheCache(t *testing.T) {
	t.Parallel()
	server, cache := &secretsOf{}, &secretsOf{stored: map[string]*corev1.Secret{"s": secretAt("1", "v")}}
	c := &secretClient{Client: server, metadata: cache, kept: lru.New(keptSecrets)}
	got := &metav1.PartialObjectMetadata{}
	got.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "s"}, got); err != nil || server.reads > 0 {
		t.Errorf("%v, %d reads", err, server.reads)
	}
}

// TestSecretsOfOtherNamespaces: they do not exist for a manager of one namespace.
func TestSecretsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, namespace string
		found             bool
	}{
		"All":   {"a manager of all namespaces sees every Secret", "", true},
		"Own":   {"a manager of one namespace sees that one's", "b", true},
		"Other": {"and no other's", "a", false},
	}
	for name, tc := range cases {
		all := &secretsOf{stored: map[string]*corev1.Secret{"s": secretAt("1", "v")}}
		c := &secretClient{Client: all, metadata: all, namespace: tc.namespace, kept: lru.New(keptSecrets)}
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "s"}, &corev1.Secret{})
		if found := err == nil; found != tc.found || client.IgnoreNotFound(err) != nil || !found && all.reads > 0 {
			t.Errorf("%s: %s: %v", name, tc.reason, err)
		}
	}
}

// TestCacheKeepsNoSecret: what the cache keeps of a Secret has no content.
func TestCacheKeepsNoSecret(t *testing.T) {
	t.Parallel()
	s := secretAt("1", "v")
	s.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"data":{"k":"dg=="}}`, "other": "kept"}
	s.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	m := &metav1.PartialObjectMetadata{ObjectMeta: *s.ObjectMeta.DeepCopy()}
	for _, o := range []client.Object{s, m} {
		if _, err := stripSecret(o); err != nil {
			t.Fatal(err)
		}
		if len(o.GetAnnotations()) != 1 || len(o.GetManagedFields()) > 0 {
			t.Errorf("%T: kept %v", o, o.GetAnnotations())
		}
	}
	if len(s.Data) > 0 {
		t.Error("a Secret that is cached whole keeps its data")
	}
}
