#!/bin/bash
# A real Kubernetes control plane (etcd, API server, Job and StatefulSet controllers) on loopback: up.sh STATE_DIR [PORT].
# The program is `control-plane` beside this script, which `make control-plane` builds, or what CONTROL_PLANE names. Prints KUBECONFIG=… when ready.
# Ends with its caller's `kill $(cat STATE_DIR/*.pid)`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd); R=$(mkdir -p "$1" && cd "$1" && pwd); P=${2:-26443}; E=$((P + 1)); Q=$((P + 2))
bin=${CONTROL_PLANE:-$here/control-plane}
openssl genrsa -out "$R/sa.key" 2048 2>/dev/null; openssl rsa -in "$R/sa.key" -pubout -out "$R/sa.pub" 2>/dev/null
token=$(openssl rand -hex 16); echo "$token,admin,admin,\"system:masters\"" >"$R/tokens.csv"; chmod 600 "$R/tokens.csv"
"$bin" etcd --unsafe-no-fsync --data-dir "$R/etcd" --listen-client-urls http://127.0.0.1:$E --advertise-client-urls http://127.0.0.1:$E --listen-peer-urls http://127.0.0.1:$Q \
  --initial-advertise-peer-urls http://127.0.0.1:$Q --initial-cluster default=http://127.0.0.1:$Q >"$R/etcd.log" 2>&1 & echo $! >"$R/etcd.pid"
"$bin" kube-apiserver --etcd-servers=http://127.0.0.1:$E --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port=$P --cert-dir="$R/certs" --token-auth-file="$R/tokens.csv" --authorization-mode=AlwaysAllow \
  --service-account-key-file="$R/sa.pub" --service-account-signing-key-file="$R/sa.key" --service-account-issuer=https://127.0.0.1:$P --service-cluster-ip-range=10.0.0.0/24 \
  --disable-admission-plugins=ServiceAccount --endpoint-reconciler-type=none >"$R/apiserver.log" 2>&1 & echo $! >"$R/apiserver.pid"
cat >"$R/kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:$P", certificate-authority: "$R/certs/apiserver.crt"}}]
users: [{name: u, user: {token: $token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
K
ready() { curl -sf -m 2 --cacert "$R/certs/apiserver.crt" -H "Authorization: Bearer $token" https://127.0.0.1:$P/readyz; }
for i in $(seq 200); do [ "$(ready 2>/dev/null || true)" = ok ] && break; sleep 0.2; done
[ "$(ready)" = ok ] || { tail -3 "$R/apiserver.log" >&2; exit 1; }
KUBECONFIG="$R/kubeconfig" "$bin" controllers >"$R/controllers.log" 2>&1 & echo $! >"$R/controllers.pid"
echo "KUBECONFIG=$R/kubeconfig"
