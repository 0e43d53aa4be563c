# One image for web and worker: the command decides. Built and run as in docs/operations.md.
FROM python:3.12-slim-bookworm AS build
WORKDIR /srv/opensre
RUN python -m venv /srv/venv
COPY requirements.txt .
RUN /srv/venv/bin/pip install --no-cache-dir --disable-pip-version-check -r requirements.txt
COPY manage.py .
COPY controlplane controlplane
COPY web web
COPY templates templates
# Static files are collected under the names of production; the key of this step is used for nothing else.
RUN OPENSRE_MODE=production OPENSRE_DATA_DIR=/var/lib/opensre SECRET_KEY=only-to-collect-static-files \
    /srv/venv/bin/python manage.py collectstatic --no-input

FROM python:3.12-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin opensre
COPY --from=build /srv/venv /srv/venv
COPY --from=build /srv/opensre /srv/opensre
COPY --from=build --chown=opensre:opensre /var/lib/opensre /var/lib/opensre
WORKDIR /srv/opensre
USER opensre
ENV PATH=/srv/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    OPENSRE_MODE=production OPENSRE_DATA_DIR=/var/lib/opensre
EXPOSE 8000
# The worker is the same image with the command: python manage.py worker
CMD ["python", "-m", "uvicorn", "controlplane.asgi:application", "--host", "0.0.0.0", "--port", "8000", \
     "--lifespan", "on", "--timeout-graceful-shutdown", "5", "--no-proxy-headers"]
