{{/* Values that contradict each other, or that no cluster could run. Each says what to do. */}}
{{- define "a2a-grpc.checks" -}}
{{- include "a2a-grpc.checks.names" . }}
{{- $redis := .Values.redis -}}
{{- $url := $redis.url | default "" -}}
{{- if not (or $redis.existingSecret.name $url) }}
{{- fail "\n\nredis.existingSecret.name is missing: the Secret of this namespace that holds the URL of the Redis or Valkey (key redis-url). All replicas share it; there is no embedded store in a cluster. docs/DEPLOY.md, section 2." }}
{{- end }}
{{- if and $redis.existingSecret.name $url }}
{{- fail "\n\nredis.existingSecret.name and redis.url are both set: give one of them." }}
{{- end }}
{{- if regexMatch "@|[Pp]assword=" $url }}
{{- fail "\n\nredis.url holds a password. Put the URL into a Secret and name it in redis.existingSecret." }}
{{- end }}
{{- if and $url (not (regexMatch "^(rediss?|rediss?\\+sentinel|rediss?\\+cluster)://[^/?]+" $url)) }}
{{- fail (printf "\n\nredis.url %q is none of redis://, redis+sentinel:// and redis+cluster:// (with rediss for TLS)." $url) }}
{{- end }}
{{- if and (contains "+cluster://" $url) (lt (int $redis.shards) 16) }}
{{- fail "\n\nredis.url is a cluster and redis.shards below 16: all tasks would lie on one of its masters, and the number cannot be changed later." }}
{{- end }}

{{- $agents := .Values.agents -}}
{{- $served := compact (list .Values.agent $agents.existingConfigMap $agents.existingSecret (ternary "file" "" (not (empty $agents.file)))) }}
{{- if gt (len $served) 1 }}
{{- fail "\n\nOf agent, agents.file, agents.existingConfigMap and agents.existingSecret only one can be the argument of serve." }}
{{- end }}
{{- if and $agents.files (not $agents.file) }}
{{- fail "\n\nagents.files goes with agents.file. Put them into the ConfigMap or Secret that is there." }}
{{- end }}
{{- if and .Values.extraArgs (not $served) (not (regexMatch "(^| )--executor[ =]" (join " " (.Values.extraArgs | default list)))) }}
{{- fail "\n\nextraArgs take the place of the command of the image, and with it of the agent that it names: set agent (or agents) as well." }}
{{- end }}

{{- include "a2a-grpc.checks.settings" (list "settings" .Values.settings) }}
{{- include "a2a-grpc.checks.settings" (list "registry.settings" .Values.registry.settings) }}
{{- include "a2a-grpc.checks.times" . }}

{{- $tls := .Values.tls -}}
{{- if not $tls.existingSecret }}
{{- if or $tls.clientCa.existingSecret $tls.clientCa.existingConfigMap (ne $tls.clientCert "none") (ne $tls.grpcClientCert "none") }}
{{- fail "\n\ntls.clientCa, tls.clientCert and tls.grpcClientCert need tls.existingSecret: without a certificate of its own a pod speaks plain text." }}
{{- end }}
{{- else if and (or (ne $tls.clientCert "none") (ne $tls.grpcClientCert "none")) (not (or $tls.clientCa.existingSecret $tls.clientCa.existingConfigMap)) }}
{{- fail "\n\ntls.clientCert and tls.grpcClientCert need tls.clientCa: whose certificates are accepted." }}
{{- end }}

{{- if and .Values.gateway.backendTls.caConfigMap (not $tls.existingSecret) }}
{{- fail "\n\ngateway.backendTls needs tls.existingSecret: without a certificate of its own a pod speaks plain text." }}
{{- end }}
{{- if and (not .Values.otlp.endpoint) (or .Values.otlp.headers.existingSecret .Values.otlp.to) }}
{{- fail "\n\notlp.headers and otlp.to need otlp.endpoint: without it nothing is exported." }}
{{- end }}
{{- with .Values.otlp.endpoint }}
{{- if and (hasPrefix "http://" .) (not (regexMatch ":0*[1-9][0-9]*$" (urlParse .).host)) }}
{{- fail (printf "\n\notlp.endpoint %s names no port: write it, mostly :4317. Without one gRPC takes 443, for plain text too." .) }}
{{- end }}
{{- end }}
{{- if and .Values.service.grpc.headless (ne (.Values.service.grpc.type | default "ClusterIP") "ClusterIP") }}
{{- fail (printf "\n\nservice.grpc.type %s needs service.grpc.headless false: a headless Service has no address of its own." .Values.service.grpc.type) }}
{{- end }}

{{- include "a2a-grpc.checks.routes" . }}

{{- with .Values.autoscaling }}
{{- if .enabled }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
{{- fail "\n\nautoscaling.minReplicas is above autoscaling.maxReplicas." }}
{{- end }}
{{- if and (kindIs "invalid" .turnsPerPod) (kindIs "invalid" .queueAge) }}
{{- fail "\n\nautoscaling needs something to scale by: turnsPerPod, queueAge or both." }}
{{- end }}
{{- if and (eq .kind "keda") (not .keda.serverAddress) }}
{{- fail "\n\nautoscaling.keda.serverAddress is missing: the Prometheus that KEDA asks." }}
{{- end }}
{{- $most := dig "A2A_MAX_TURNS" 100 ($.Values.settings | default dict) | int }}
{{- if and .turnsPerPod (ge (int .turnsPerPod) $most) (not (regexMatch "--workers" (join " " ($.Values.extraArgs | default list)))) }}
{{- fail (printf "\n\nautoscaling.turnsPerPod is %d and A2A_MAX_TURNS %d: a pod never runs more, so no pod would be added." (int .turnsPerPod) $most) }}
{{- end }}
{{- if not $.Values.metrics.enabled }}
{{- fail "\n\nautoscaling goes by metrics of the pods: metrics.enabled must be true." }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (ne .Values.metrics.monitor "none") (not .Values.metrics.enabled) }}
{{- fail "\n\nmetrics.monitor has nothing to read while metrics.enabled is false." }}
{{- end }}
{{- end }}

{{/* Helm takes more names for releases than Kubernetes for Services, and YAML takes some for what is no text. */}}
{{- define "a2a-grpc.checks.names" -}}
{{- $name := include "a2a-grpc.fullname" . -}}
{{- if not (and (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) (kindIs "string" (printf "name: %s" $name | fromYaml).name)) }}
{{- fail (printf "\n\n%q is no name for a Service: small letters, digits and dashes, a letter first. Set fullnameOverride." $name) }}
{{- end }}
{{- range $where := list "labels" "podLabels" }}
{{- range $label, $_ := get $.Values $where | default dict }}
{{- if has $label (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version"
  "app.kubernetes.io/part-of" "app.kubernetes.io/managed-by" "helm.sh/chart") }}
{{- fail (printf "\n\n%s.%s is set by the chart: Services and others find the pods by it." $where $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* (list WHERE SETTINGS) */}}
{{- define "a2a-grpc.checks.settings" -}}
{{- $where := index . 0 -}}
{{- $settings := index . 1 -}}
{{- $own := dict "A2A_REDIS_URL" "redis" "A2A_SHARDS" "redis.shards" "A2A_STORE_REPLICAS" "redis.writeReplicas"
  "A2A_API_KEYS" "apiKeys" "A2A_ENCRYPTION_KEYS" "encryptionKeys" "A2A_SIGNING_KEYS" "signingKeys"
  "A2A_DRAIN_DELAY" "shutdown.drainDelay" "A2A_DRAIN_GRACE" "shutdown.drainGrace" "A2A_DRAIN_TIMEOUT" "shutdown.drainTimeout"
  "A2A_CANCEL_GRACE" "shutdown.cancelGrace" "A2A_PUBLIC_GRPC_ADDR" "publicGrpcAddr" "A2A_PUBLIC_HTTP_URL" "publicHttpUrl"
  "A2A_METRICS_ADDR" "metrics.enabled" "A2A_REGISTER_HEADER" "registry.registerHeader"
  "A2A_TLS_CERT_FILE" "tls.existingSecret" "A2A_TLS_KEY_FILE" "tls.existingSecret" "A2A_TLS_CLIENT_CA_FILE" "tls.clientCa"
  "A2A_TLS_TERMINATED" "tls.existingSecret" "A2A_TLS_CLIENT_CERT" "tls.clientCert" "A2A_TLS_GRPC_CLIENT_CERT" "tls.grpcClientCert"
  "OTEL_EXPORTER_OTLP_ENDPOINT" "otlp.endpoint"
  "OTEL_TRACES_SAMPLER_ARG" "otlp.samplingRatio" "OTEL_EXPORTER_OTLP_HEADERS" "otlp.headers" -}}
{{- range $name, $_ := $settings }}
{{- if hasKey $own $name }}
{{- fail (printf "\n\n%s.%s has a value of its own in this chart: %s." $where $name (get $own $name)) }}
{{- end }}
{{- if has $name (list "A2A_GRPC_ADDR" "A2A_HTTP_ADDR" "A2A_DATA_DIR") }}
{{- fail (printf "\n\n%s.%s cannot be set: Services, probes and policies go by the ports 50051 and 8080 of the pods, and nothing is kept in them. listen is the address." $where $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.checks.times" -}}
{{- $shutdown := .Values.shutdown -}}
{{- $timeout := int (include "a2a-grpc.drainTimeout" .) -}}
{{- $needs := int (include "a2a-grpc.drainNeeds" .) -}}
{{- if lt $timeout $needs }}
{{- fail (printf "\n\nshutdown.drainTimeout is %d s; drainDelay, drainGrace, cancelGrace and 3 s to give turns back and end the calls are %d s. Leave it out, and it is computed." $timeout $needs) }}
{{- end }}
{{- $period := int (include "a2a-grpc.gracePeriod" .) -}}
{{- $least := int (include "a2a-grpc.gracePeriodNeeds" .) -}}
{{- if lt $period $least }}
{{- fail (printf "\n\nshutdown.terminationGracePeriodSeconds is %d s; preStopSleep, the drain timeout and 2 s are %d s: the kubelet would kill pods that still drain. Leave it out, and it is computed." $period $least) }}
{{- end }}
{{- $noticed := int (mul .Values.probes.readiness.periodSeconds .Values.probes.readiness.failureThreshold) -}}
{{- if lt (int (add $shutdown.drainDelay $shutdown.preStopSleep)) $noticed }}
{{- fail (printf "\n\nshutdown.drainDelay and preStopSleep are %d s together, and the readiness probe needs %d s to find a pod not ready: it would be called after it has stopped." (add $shutdown.drainDelay $shutdown.preStopSleep) $noticed) }}
{{- end }}
{{- if and $shutdown.preStopSleep (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "\n\nshutdown.preStopSleep needs Kubernetes 1.30 or later, this is %s. Use shutdown.drainDelay, which does the same." .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.checks.routes" -}}
{{- range $value, $found := dict "publicGrpcAddr" (include "a2a-grpc.publicGrpcAddr" .) "publicHttpUrl" (include "a2a-grpc.publicHttpUrl" .) }}
{{- if contains "*" $found }}
{{- fail (printf "\n\n%s is missing: %s stands for many names, and the agent card has to tell callers one." $value $found) }}
{{- end }}
{{- end }}
{{- with .Values.gateway }}
{{- if .enabled }}
{{- $grpc := .grpc -}}
{{- $http := .http -}}
{{- range $kind, $route := dict "grpc" $grpc "http" $http }}
{{- if and $route.enabled (not $route.parentRefs) }}
{{- fail (printf "\n\ngateway.%s.parentRefs is missing: the Gateway that takes the route." $kind) }}
{{- end }}
{{- end }}
{{- if and $grpc.enabled $http.enabled }}
{{- range $parent := $grpc.parentRefs }}
{{- if has $parent $http.parentRefs }}
{{- if or (not $grpc.hostnames) (not $http.hostnames) }}
{{- fail "\n\ngateway.grpc and gateway.http go to the same listener and one of them has no hostnames: a listener takes only one of two routes of different kinds with a host name in common. Give each its own, or its own listener (sectionName)." }}
{{- end }}
{{- range $hostname := $grpc.hostnames }}
{{- if has $hostname $http.hostnames }}
{{- fail (printf "\n\ngateway.grpc and gateway.http both have the host name %q at the same listener, which takes only one of two routes of different kinds then. Give each its own host name, or its own listener (sectionName)." $hostname) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.ingress }}
{{- if .enabled }}
{{- range $kind, $rule := dict "grpc" .grpc "http" .http }}
{{- if and $rule.enabled (not $rule.host) }}
{{- fail (printf "\n\ningress.%s.host is missing." $kind) }}
{{- end }}
{{- end }}
{{- if and .grpc.enabled .http.enabled (eq .grpc.host .http.host) }}
{{- fail "\n\ningress.grpc.host and ingress.http.host are the same: an ingress speaks one protocol with what is behind a host and path." }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
