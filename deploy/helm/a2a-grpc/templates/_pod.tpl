{{/* The Deployment of a component. (dict "root" $ "component" C "name" N "replicas" R "scaled" BY-AN-AUTOSCALER "args" A "resources" X) */}}
{{- define "a2a-grpc.deployment" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $component := .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels:
    {{- include "a2a-grpc.labels" (list $root .component) | nindent 4 }}
  {{- with $values.deploymentAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if not .scaled }}
  replicas: {{ .replicas }}
  {{- else }}
  {{- with lookup "apps/v1" "Deployment" $root.Release.Namespace .name }}
  # As many as there are: without a number Kubernetes would go to one pod for as long as the autoscaler takes to notice.
  replicas: {{ .spec.replicas }}
  {{- end }}
  {{- end }}
  # A new pod must be ready before an old one is asked to leave.
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels:
      {{- include "a2a-grpc.selector" (list $root .component) | nindent 6 }}
  template:
    metadata:
      annotations:
        checksum/settings: {{ include "a2a-grpc.settings" (list $root .component) | sha256sum }}
        {{- if and (eq .component "agent") $values.agents.file }}
        checksum/agents: {{ toJson $values.agents | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      labels:
        {{- include "a2a-grpc.podLabels" (list $root .component) | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "a2a-grpc.serviceAccount" $root | toYaml }}
      automountServiceAccountToken: false
      # Kubernetes would describe every Service of the namespace in variables such as A2A_GRPC_HTTP_PORT, which is where
      # this program looks for its settings.
      enableServiceLinks: false
      {{- with $values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ toYaml . }}
        {{- end }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # Longer than A2A_DRAIN_TIMEOUT and the sleep of a preStop hook.
      terminationGracePeriodSeconds: {{ include "a2a-grpc.gracePeriod" $root }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ toYaml . }}
      {{- end }}
      {{- with $values.topologySpread }}
      topologySpreadConstraints:
        {{- range . }}
        - maxSkew: {{ .maxSkew }}
          topologyKey: {{ .topologyKey }}
          whenUnsatisfiable: {{ .whenUnsatisfiable }}
          # Nodes that take no such pod don't count as empty ones, which would forbid a second pod on the others.
          nodeTaintsPolicy: Honor
          labelSelector:
            matchLabels:
              {{- include "a2a-grpc.selector" (list $root $component) | nindent 14 }}
          matchLabelKeys:
            - pod-template-hash
        {{- end }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: a2a-grpc
          image: {{ include "a2a-grpc.image" $root | toYaml }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          {{- with .args }}
          args:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          envFrom:
            - configMapRef:
                name: {{ .name }}
            {{- with $values.extraEnvFrom }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with include "a2a-grpc.env" . }}
          env:
            {{- trim . | nindent 12 }}
          {{- end }}
          ports:
            - name: grpc
              containerPort: 50051
            - name: http
              containerPort: 8080
            {{- if $values.metrics.enabled }}
            - name: metrics
              containerPort: 9464
            {{- end }}
          # Startup and liveness ask whether the process answers; only readiness asks for the store. A pod that starts
          # while Redis is away is thus not restarted again and again: it waits, out of the Service, until Redis is back.
          startupProbe:
            {{- include "a2a-grpc.probe" (list $root $component "startup") | nindent 12 }}
          readinessProbe:
            {{- include "a2a-grpc.probe" (list $root $component "readiness") | nindent 12 }}
          livenessProbe:
            {{- include "a2a-grpc.probe" (list $root $component "liveness") | nindent 12 }}
          # What ends the process at its start, such as a setting that cannot be, stands in its log.
          terminationMessagePolicy: FallbackToLogsOnError
          {{- with $values.shutdown.preStopSleep }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ . }}
          {{- end }}
          {{- with .resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- range include "a2a-grpc.mounts" . | fromYamlArray }}
            - name: {{ .name }}
              mountPath: /etc/a2a-grpc/{{ .name }}
              readOnly: true
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with $values.sidecars }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: {{ toYaml $values.tmpSize }}
        {{- with include "a2a-grpc.mounts" . | fromYamlArray }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}

{{/* Secrets by reference, and what the pod knows of itself. */}}
{{- define "a2a-grpc.env" -}}
{{- $values := .root.Values -}}
{{- $agent := eq .component "agent" -}}
{{- with $values.redis.existingSecret }}
{{- if .name }}
- name: A2A_REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ toYaml .name }}
      key: {{ toYaml .key }}
{{- end }}
{{- end }}
{{- with $values.apiKeys }}
{{- if .existingSecret }}
- name: A2A_API_KEYS
  valueFrom:
    secretKeyRef:
      name: {{ toYaml .existingSecret }}
      key: {{ toYaml .key }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- with $values.encryptionKeys }}
{{- if and $agent .existingSecret }}
- name: A2A_ENCRYPTION_KEYS
  valueFrom:
    secretKeyRef:
      name: {{ toYaml .existingSecret }}
      key: {{ toYaml .key }}
{{- end }}
{{- end }}
{{- with $values.registry.registerHeader }}
{{- if and $agent .existingSecret }}
- name: A2A_REGISTER_HEADER
  valueFrom:
    secretKeyRef:
      name: {{ toYaml .existingSecret }}
      key: {{ toYaml .key }}
{{- end }}
{{- end }}
{{- with $values.otlp }}
{{- if .endpoint }}
{{- if .headers.existingSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ toYaml .headers.existingSecret }}
      key: {{ toYaml .headers.key }}
{{- end }}
- name: K8S_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: K8S_NAMESPACE_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: OTEL_RESOURCE_ATTRIBUTES
  {{- $given := include "a2a-grpc.settings.given" (list .root .component) | fromYaml }}
  value: {{ list "k8s.namespace.name=$(K8S_NAMESPACE_NAME),k8s.pod.name=$(K8S_POD_NAME)" $given.OTEL_RESOURCE_ATTRIBUTES | compact | join "," | quote }}
{{- end }}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Volumes that are mounted at /etc/a2a-grpc/NAME. */}}
{{- define "a2a-grpc.mounts" -}}
{{- $values := .root.Values -}}
{{- $agent := eq .component "agent" -}}
{{- with $values.redis.ca }}
{{- if or .existingConfigMap .existingSecret }}
{{ include "a2a-grpc.authorities" (list "redis" .) }}
{{- end }}
{{- end }}
{{- with $values.tls }}
{{- if .existingSecret }}
- name: tls
  secret:
    secretName: {{ toYaml .existingSecret }}
{{- if or .clientCa.existingConfigMap .clientCa.existingSecret }}
{{ include "a2a-grpc.authorities" (list "client-ca" .clientCa) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $values.signingKeys }}
{{- if and $agent .existingSecret }}
- name: signing
  secret:
    secretName: {{ toYaml .existingSecret }}
{{- end }}
{{- end }}
{{- with $values.agents }}
{{- if and $agent .existingSecret }}
- name: agents
  secret:
    secretName: {{ toYaml .existingSecret }}
{{- else if and $agent (or .file .existingConfigMap) }}
- name: agents
  configMap:
    name: {{ .existingConfigMap | default (printf "%s-agents" $.name) | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* One file ca.crt. (list VOLUME SOURCE) */}}
{{- define "a2a-grpc.authorities" -}}
{{- $source := index . 1 -}}
- name: {{ index . 0 }}
  {{- if $source.existingConfigMap }}
  configMap:
    name: {{ toYaml $source.existingConfigMap }}
  {{- else }}
  secret:
    secretName: {{ toYaml $source.existingSecret }}
  {{- end }}
    items:
      - key: {{ toYaml $source.key }}
        path: ca.crt
{{- end }}

{{/* (list $ COMPONENT PROBE) */}}
{{- define "a2a-grpc.probe" -}}
{{- $root := index . 0 -}}
{{- $probe := index . 2 -}}
{{- $service := ternary "lf.a2a.v1.A2AService" "a2a_grpc.registry.v1.RegistryService" (eq (index . 1) "agent") -}}
{{- $ready := eq $probe "readiness" -}}
{{- if $root.Values.tls.existingSecret -}}
# The gRPC probes of Kubernetes know no TLS.
httpGet:
  scheme: HTTPS
  port: http
  path: {{ ternary "/readyz" "/healthz" $ready }}
{{- else -}}
grpc:
  port: 50051
  service: {{ ternary $service "liveness" $ready }}
{{- end }}
{{ toYaml (get $root.Values.probes $probe) }}
{{- end }}
