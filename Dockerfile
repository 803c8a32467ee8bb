# docker build -t rltok . && docker run --rm -p 8888:8888 rltok      JupyterLab with the chapters, on CPU
FROM debian:12-slim AS base
RUN apt-get update -q \
    && apt-get install -qy --no-install-recommends ca-certificates git make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

FROM base
WORKDIR /rltok
COPY . .
RUN make .venv/installed/lab
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--config=scripts/notebooks/jupyter_server_config.py", "--ip=0.0.0.0", "--no-browser", "--allow-root"]
