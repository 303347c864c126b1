package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// expressions are Helm's, which stand as words in an object until it is text.
type expressions []string

// word returns what stands for an expression.
func (e *expressions) word(expression string) string {
	*e = append(*e, expression)
	return fmt.Sprintf("HELM-EXPRESSION-%d-", len(*e)-1)
}

// eachNamespace stands for a namespace that the values list.
const eachNamespace = "each-namespace"

// parameterize returns o as a template: it is installed in the release's namespace
// instead of namespace, and a Deployment follows the values under the path values.
func parameterize(o *unstructured.Unstructured, namespace, values string) (string, error) {
	var e expressions
	inNamespace(o.Object, namespace, e.word("{{ $.Release.Namespace }}"))
	inNamespace(o.Object, eachNamespace, e.word("{{ $namespace }}"))
	switch o.GetKind() {
	case "Deployment":
		if err := e.deployment(o, values); err != nil {
			return "", err
		}
	case "ServiceAccount":
		if metadata, _ := o.Object["metadata"].(map[string]any); annotated(o, values) {
			metadata["annotations"] = e.word("{{ toJson " + values + ".serviceAccountAnnotations }}")
		}
	case "PrometheusRule", "PodMonitor", "ServiceMonitor", "ConfigMap":
		if err := e.observed(o, values); err != nil {
			return "", err
		}
	}
	text, err := marshal(o)
	if err != nil {
		return "", err
	}
	for i, expression := range e {
		text = strings.ReplaceAll(text, fmt.Sprintf("HELM-EXPRESSION-%d-", i), expression)
	}
	return text, nil
}

// annotated reports whether the values have annotations for a ServiceAccount: for those of managers.
func annotated(o *unstructured.Unstructured, values string) bool {
	return values != ".Values.monitoring" && len(o.GetAnnotations()) == 0
}

// observed gives an object the labels by which a Prometheus or a Grafana finds it. Its own
// templates, which are filled in there, are kept from Helm.
func (e *expressions) observed(o *unstructured.Unstructured, values string) error {
	metadata, _ := o.Object["metadata"].(map[string]any)
	labels := "(dict)"
	if own := o.GetLabels(); len(own) > 0 {
		labels = "(dict"
		for _, name := range slices.Sorted(maps.Keys(own)) {
			labels += fmt.Sprintf(" %q %q", name, own[name])
		}
		labels += ")"
	}
	metadata["labels"] = e.word("{{ merge (deepCopy " + values + ".labels) " + labels + " | toJson }}")
	for _, field := range []string{"spec", "data"} {
		part, found := o.Object[field]
		if !found {
			continue
		}
		text, err := json.Marshal(part) // all of its strings are quoted, which templates in YAML need
		if err != nil {
			return err
		}
		o.Object[field] = e.word(strings.ReplaceAll(string(text), "{{", `{{ "{{" }}`))
	}
	return nil
}

// inNamespace replaces a namespace wherever an object, or a part of it, names it.
func inNamespace(part any, former, namespace string) {
	switch part := part.(type) {
	case map[string]any:
		for key, value := range part {
			if key == "namespace" && value == former {
				part[key] = namespace
			}
			inNamespace(value, former, namespace)
		}
	case []any:
		for _, item := range part {
			inNamespace(item, former, namespace)
		}
	}
}

// deployment has a Deployment follow the values.
func (e *expressions) deployment(o *unstructured.Unstructured, values string) error {
	spec, found := o.Object["spec"].(map[string]any)
	if !found {
		return fmt.Errorf("no spec")
	}
	containers, found, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil || !found || len(containers) != 1 {
		return fmt.Errorf("%d containers, one is expected: %w", len(containers), err)
	}
	container, _ := containers[0].(map[string]any)
	spec["replicas"] = e.word("{{ int " + values + ".replicas }}")
	container["image"] = e.word(`{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}` +
		`{{ with .Values.image.digest }}@{{ . }}{{ end }}`)
	container["imagePullPolicy"] = e.word("{{ .Values.image.pullPolicy }}")
	container["resources"] = e.word("{{ toJson " + values + ".resources }}")
	container["args"] = e.word("{{ concat (list " + arguments(container["args"], values) + ") " +
		values + ".extraArgs | toJson }}")
	if container["env"], err = e.extended(constant(container["env"]), values+".extraEnv"); err != nil {
		return err
	}
	container["volumeMounts"] = e.word("{{ toJson " + values + ".extraVolumeMounts }}")
	pod := []string{"spec", "template", "spec"}
	for field, value := range map[string]any{
		"containers":       []any{container},
		"volumes":          e.word("{{ toJson " + values + ".extraVolumes }}"),
		"nodeSelector":     e.word("{{ toJson " + values + ".nodeSelector }}"),
		"imagePullSecrets": e.word("{{ toJson .Values.imagePullSecrets }}"),
	} {
		if err := unstructured.SetNestedField(o.Object, value, append(pod, field)...); err != nil {
			return err
		}
	}
	return nil
}

// extended returns the expression of a list of objects with more from the values.
func (e *expressions) extended(list any, more string) (string, error) {
	if list == nil {
		list = []any{}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	if strings.Contains(string(text), "`") {
		return "", fmt.Errorf("a back-quote in %s", text)
	}
	return e.word("{{ concat (fromJsonArray `" + string(text) + "`) " + more + " | toJson }}"), nil
}

// constant are the variables of an environment that are not clusterctl's.
func constant(env any) []any {
	items, _ := env.([]any)
	return slices.DeleteFunc(slices.Clone(items), func(item any) bool {
		v, _ := item.(map[string]any)
		return variable.MatchString(fmt.Sprint(v["value"]))
	})
}

// arguments are those of a container in Helm's form. clusterctl's variables are
// values here.
func arguments(list any, values string) string {
	var quoted []string
	items, _ := list.([]any)
	for _, item := range items {
		switch argument := defaulted(fmt.Sprint(item)); {
		case strings.HasPrefix(argument, "--v="):
			quoted = append(quoted, `(printf "--v=%d" (int .Values.logLevel))`)
		case strings.HasPrefix(argument, "--concurrent-syncs="):
			quoted = append(quoted, `(printf "--concurrent-syncs=%d" (int `+values+`.concurrentSyncs))`)
		case argument == "--namespace=$(MCM_WATCH_NAMESPACE)":
			quoted = append(quoted, `(printf "--namespace=%s" `+values+`.watchNamespace)`)
		case argument == "--watch-filter=$(MCM_WATCH_FILTER)":
			quoted = append(quoted, `(printf "--watch-filter=%s" `+values+`.watchFilter)`)
		case strings.HasPrefix(argument, "--insecure-diagnostics="):
			quoted = append(quoted, `(printf "--insecure-diagnostics=%t" `+values+`.insecureDiagnostics)`)
		case strings.HasPrefix(argument, "--ambient-credentials="):
			quoted = append(quoted, `(printf "--ambient-credentials=%t" `+values+`.ambientCredentials)`)
		default:
			quoted = append(quoted, fmt.Sprintf("%q", argument))
		}
	}
	return strings.Join(quoted, " ")
}

// variable is one of clusterctl's, with its default.
var variable = regexp.MustCompile(`\$\{[A-Z_]+:=([^}]*)\}`)

// defaulted has the defaults instead of clusterctl's variables.
func defaulted(argument string) string { return variable.ReplaceAllString(argument, "$1") }

// marshal returns o as YAML that Helm takes as it is.
func marshal(o *unstructured.Unstructured) (string, error) {
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", err
	}
	for _, special := range []string{"{{", "${"} {
		if strings.Contains(string(text), special) {
			return "", fmt.Errorf("contains %s, which the chart has no value for", special)
		}
	}
	return string(text), nil
}
