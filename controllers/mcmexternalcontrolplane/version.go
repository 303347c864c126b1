package mcmexternalcontrolplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	capiversion "sigs.k8s.io/cluster-api/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
)

const (
	versionTimeout = 5 * time.Second
	versionCheck   = 10 * time.Minute // no watch reports that an API server was upgraded
	upgradeCheck   = time.Minute      // workers wait for the version
)

// observeVersion asks the API server which version it runs. Every pass asks: a pass
// follows each change of the spec, the kubeconfig, the connection and the version of a
// kubelet, and otherwise the checks above.
func (c *Controller) observeVersion(ctx context.Context, s *scope) {
	if !s.connected || s.paused != "" || !s.cp.DeletionTimestamp.IsZero() {
		return
	}
	config, err := c.Clusters.GetRESTConfig(ctx, client.ObjectKeyFromObject(s.cluster))
	if err == nil {
		s.version, err = oldestVersion(ctx, config, s.cp.Status.Version)
	}
	s.versionErr = err
}

// answers is how many have to agree before a newer version is reported.
const answers = 3

// oldestVersion returns the version that an API server reports. Behind one address there
// may be several that are upgraded one after the other, and kubelets may be no newer than
// any: where the first answer is newer than last, it returns the oldest of several, each of
// a connection of its own.
func oldestVersion(ctx context.Context, config *rest.Config, last string) (string, error) {
	oldest, err := serverVersion(ctx, config)
	if err != nil || last == "" || !newer(oldest, last) {
		return oldest, err
	}
	config = rest.CopyConfig(config)
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // the default; connections of a Config with a function are not shared
	}
	for range answers - 1 {
		next, err := serverVersion(ctx, config)
		if err != nil {
			return "", err
		}
		if newer(oldest, next) {
			oldest = next
		}
	}
	return oldest, nil
}

// newer reports whether Cluster API takes a for a newer version than b. One that cannot
// be read is older than any.
func newer(a, b string) bool {
	is, err := semver.ParseTolerant(a)
	if err != nil {
		return false
	}
	other, err := semver.ParseTolerant(b)
	return err != nil || capiversion.Compare(is, other, capiversion.WithBuildTags()) >= 1
}

// serverVersion returns the version that an API server reports, a semantic version.
func serverVersion(ctx context.Context, config *rest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	if config.Proxy != nil {
		defer connection.CloseIdleConnections() // it is not shared
	}
	c, err := discovery.NewDiscoveryClientForConfigAndClient(config, connection)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	text, err := c.RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return "", withoutAddress(err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return "", errors.New("the answer is not JSON")
	}
	if _, err := semver.ParseTolerant(info.GitVersion); err != nil {
		return "", fmt.Errorf("gitVersion %q is not a semantic version", info.GitVersion)
	}
	return info.GitVersion, nil
}

// withoutAddress drops the addresses from a failed request: the port of the client is
// another each time, and would change the condition.
func withoutAddress(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", versionTimeout)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

// reportVersion sets the versions of the status. What is not known now stays as it was.
// Source: Cluster API contract v1beta2, control plane, "version". Core reads versions
// since 1.14, and version before.
func (s *scope) reportVersion(status *controlplanev1.MCMExternalControlPlaneStatus) {
	if s.versionErr != nil || s.version == "" {
		return
	}
	reported := s.reportedVersion()
	status.Versions, status.Version = []clusterv1.StatusVersion{{Version: reported}}, reported
}

// reportedVersion is the version of the API server as Cluster API is to compare it.
// Vendors add to a release what semver takes for a version before it (v1.34.1-eks-3025e55,
// v1.33.5-gke.1200), and change that without an upgrade of Kubernetes: a server of the
// release that spec.version asks for runs spec.version.
func (s *scope) reportedVersion() string {
	runs, err := semver.ParseTolerant(s.version)
	if err != nil || len(runs.Pre) == 0 || unreleased(runs) {
		return s.version
	}
	asked, err := semver.ParseTolerant(s.cp.Spec.Version)
	if err != nil || unreleased(asked) || capiversion.Compare(release(asked), release(runs)) != 0 {
		return s.version
	}
	return s.cp.Spec.Version
}

// unreleased reports whether v is one of Kubernetes' versions before a release.
func unreleased(v semver.Version) bool {
	return len(v.Pre) > 0 && slices.Contains([]string{"alpha", "beta", "rc"}, v.Pre[0].VersionStr)
}

// release is v without what follows major, minor and patch.
func release(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor, Patch: v.Patch}
}

// versionRecheck is when the version is asked for again.
func (s *scope) versionRecheck() time.Duration {
	if s.versionErr != nil || s.behind() {
		return upgradeCheck
	}
	return versionCheck
}

// behind reports whether Cluster API considers the control plane to be upgrading.
// Source: Cluster API, contract.ControlPlane().IsUpgrading.
func (s *scope) behind() bool {
	if s.cp.Spec.Version == "" || s.version == "" {
		return false
	}
	asked, err := semver.ParseTolerant(s.cp.Spec.Version)
	if err != nil {
		return true
	}
	runs, err := semver.ParseTolerant(s.reportedVersion())
	return err != nil || capiversion.Compare(asked, runs, capiversion.WithBuildTags()) >= 1
}

// reachedCondition reports whether the API server runs spec.version.
func reachedCondition(s *scope) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(controlplanev1.VersionReachedCondition, status, reason, message)
	}
	switch {
	case s.versionErr != nil:
		return is(metav1.ConditionUnknown, controlplanev1.ReasonVersionUnknown, s.versionUnknown())
	case s.behind():
		return is(metav1.ConditionFalse, controlplanev1.ReasonUpgradePending, fmt.Sprintf(
			"spec.version is %q, and the API server runs %q: Cluster API upgrades no workers until they agree; upgrade the "+
				"control plane (checked every %s)",
			s.cp.Spec.Version, s.version, upgradeCheck))
	case s.version != "" && s.reportedVersion() != s.version:
		return is(metav1.ConditionTrue, controlplanev1.ReasonVersionReached, fmt.Sprintf(
			"The API server runs %q, which is a build of that release", s.version))
	default:
		return is(metav1.ConditionTrue, controlplanev1.ReasonVersionReached, "")
	}
}

// versionUnknown is why the version is not known, and what follows.
func (s *scope) versionUnknown() string {
	kept := "status.versions is empty, and Cluster API creates no workers for a Cluster of a ClusterClass"
	if last := s.cp.Status.Version; last != "" {
		kept = fmt.Sprintf("status.versions keeps %q", last)
	}
	if errors.Is(s.versionErr, clustercache.ErrClusterNotConnected) {
		return fmt.Sprintf("version of the API server unknown: there is no connection; %s; follow the condition %s "+
			"(asked again once connected)", kept, clusterv1.AvailableCondition)
	}
	return fmt.Sprintf("version of the API server unknown: GET /version: %s; %s; allow the kubeconfig's user to GET "+
		"/version and check that the API server answers (asked again in %s)", s.versionErr, kept, upgradeCheck)
}
