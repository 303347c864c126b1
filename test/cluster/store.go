package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Store puts an object into etcd behind the API server's back, in place of what
// is there: with its own UID, generation, times and status, none of which an API
// server takes from a client. resource is the plural name of its kind, as
// "machines". The API server serves the object from then on as if it had made it,
// with a resourceVersion of its own. Nothing is defaulted or validated.
func (c *Cluster) Store(ctx context.Context, resource string, o *unstructured.Unstructured) error {
	kept := o.DeepCopy()
	kept.SetResourceVersion("")
	value, err := kept.MarshalJSON()
	if err != nil {
		return fmt.Errorf("store %s %s: %w", resource, o.GetName(), err)
	}
	encode := base64.StdEncoding.EncodeToString
	body, err := json.Marshal(map[string]string{"key": encode([]byte(storageKey(resource, o))), "value": encode(value)})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+"/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("store %s %s: %w", resource, o.GetName(), err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("store %s %s: etcd answered %s: %s", resource, o.GetName(), answer.Status, text)
	}
	return nil
}

// storageKey is where an API server keeps an object.
func storageKey(resource string, o *unstructured.Unstructured) string {
	if resource == "nodes" {
		resource = "minions" // their first name
	}
	return path.Join("/registry", o.GroupVersionKind().Group, resource, o.GetNamespace(), o.GetName())
}
